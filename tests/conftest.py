"""What all unit tests share: hypothesis runs a fixed set of examples, so that a run depends on nothing but the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
