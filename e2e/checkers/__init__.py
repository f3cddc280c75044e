"""From what was seen to a verdict. Pure: lists of findings, empty when all is well.

A checker that saw nothing to judge reports that (``UnknownError``): no evidence is not a pass.
"""

from __future__ import annotations


class UnknownError(AssertionError):
    """There was nothing to judge."""
