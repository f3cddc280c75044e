"""Skips that leave a gap: the case might have shown a fault, but could not run. They make the verdict incomplete.

A case about something that the site has not, or that its administrator did not allow, is skipped with ``pytest.skip`` alone.
"""

from __future__ import annotations

from typing import Final, NoReturn

import pytest

_MARK: Final = "not judged: "


def not_judged(why: str) -> NoReturn:
    """Skip the case, and leave a gap."""
    pytest.skip(f"{_MARK}{why}")


def why_not_judged(reason: str) -> str:
    """The argument of ``not_judged`` in the reason of its skip; "" for another skip."""
    return reason.removeprefix(_MARK) if reason.startswith(_MARK) else ""
