"""From a recorded history to findings (both in ``history``), none if all is well. Pure.

A rule is a function of the state after an entry and of that entry. A rule that has nothing to judge, or that fails in itself,
gives ``UnknownError``: that is no verdict on what is judged.
"""

from __future__ import annotations


class UnknownError(Exception):
    """There is no verdict: nothing to judge, or a rule that failed in itself."""
