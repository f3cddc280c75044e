"""The one error of the engine."""

from __future__ import annotations


class EngineError(Exception):
    """What cannot be done with Docker here; says what, where, and what to do."""
