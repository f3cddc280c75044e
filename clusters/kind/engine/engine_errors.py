"""The one error of the engine."""

from __future__ import annotations


class EngineError(Exception):
    """Docker cannot do this here; the text has what, where, and what to do."""
