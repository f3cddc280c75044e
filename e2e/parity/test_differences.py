"""Promises of e2e.parity.differences."""

from __future__ import annotations

from pathlib import Path

from e2e.parity import differences


def test_every_difference_is_shown_by_a_case_or_says_why_not() -> None:
    """A row that no case names would be an excuse without a proof."""
    texts = [path.read_text() for path in Path(__file__).parent.glob("*.py") if path != Path(__file__)]
    unshown = [one for one, row in differences.load().items() if not any(one in text for text in texts)]

    assert unshown == [one for one, row in differences.load().items() if row.no_case]
