"""The answers to a kubelet's probes: is the program alive, has it read the cluster?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gpushare.serving.http_connection import TEXT, Answer

_OK: Final = Answer(200, TEXT, b"ok")
_NOT_READY: Final = Answer(503, TEXT, b"the first list of nodes and pods is not complete")


def health(is_ready: Callable[[], bool]) -> dict[str, Callable[[], Answer]]:
    """The answers by path; ``is_ready``: is the book complete?"""
    return {"/healthz": lambda: _OK, "/readyz": lambda: _OK if is_ready() else _NOT_READY}
