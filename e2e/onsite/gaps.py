"""Skips that leave a gap: the case might have shown a fault, but could not run. They make the verdict incomplete.

A case about something that the site has not, or that its administrator did not allow, is skipped with ``pytest.skip`` alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NoReturn

import pytest

from clusters.api.api_client import ApiError

_MARK: Final = "not judged: "
_FORBIDDEN: Final = 403
# The refusals of webhooks and of policies have several codes, and these words.
_DENIALS: Final = ("denied the request", "denied request", "failed calling webhook")


def not_judged(why: str) -> NoReturn:
    """Skip the case, and leave a gap."""
    pytest.skip(f"{_MARK}{why}")


@contextlib.contextmanager
def unless_refused() -> Iterator[None]:
    """Leave a gap if the cluster refuses a pod for a quota, a policy or a right, which shows nothing about sharing."""
    try:
        yield
    except ApiError as error:
        if error.code == _FORBIDDEN or any(words in error.message for words in _DENIALS):
            not_judged(f"the cluster refuses the pod: {error.message}")
        raise


def why_not_judged(reason: str) -> str:
    """The argument of ``not_judged`` in the reason of its skip; "" for another skip."""
    return reason.removeprefix(_MARK) if reason.startswith(_MARK) else ""
