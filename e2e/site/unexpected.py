"""Errors that no check expects: one sentence for an administrator, and the traceback in a log."""

from __future__ import annotations

import functools
import os
import tempfile
import traceback
from pathlib import Path
from typing import Final

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.provider import ClusterError
from e2e.site import SiteError

# Errors with a text that names what happened.
EXPECTED: Final = (SiteError, ClusterError, ApiError, TransportError)
_LONGEST: Final = 800
# Ends an assertion's own text: pytest's words about its expression follow.
_EXPRESSION: Final = "\nassert "


def sentence(error: BaseException, log: str) -> str:
    """The error in one line, without names of the source; ``log`` is named if the text alone does not explain it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error)
    if isinstance(error, AssertionError):
        text = text.partition(_EXPRESSION)[0]
        is_clear = bool(text.strip()) and not text.startswith(_EXPRESSION.strip())
        return _line(text) if is_clear else f"what was seen is not what was expected; {log} has both"
    if isinstance(error, ApiError):
        return _line(f"the API server refused a request: {error.message or error}")
    if isinstance(error, TransportError):
        return _line(f"the API server does not answer: {text}")
    if isinstance(error, EXPECTED) and text:
        return _line(text)
    what = ": ".join(filter(None, (type(error).__name__, text)))
    return f"an unexpected error ended the check ({_line(what)}); {log} has the details"


def not_judged(error: BaseException) -> tuple[str, str]:
    """The text about something that a rule could not judge for this error, and what to do."""
    return f"not judged: {noted(error)}", "look at it with kubectl get -o yaml, and report the log as a defect"


def noted(error: BaseException) -> str:
    """The error's ``sentence``; its traceback is added to the log of this process, which the sentence names. Each is there once."""
    log, text = _log(), "".join(traceback.format_exception(error))
    if text not in log.read_text():
        with log.open("a") as file:
            file.write(text)
    return sentence(error, str(log))


@functools.cache
def _log() -> Path:
    number, name = tempfile.mkstemp(prefix="gpushare-e2e-", suffix=".log")
    os.close(number)
    return Path(name)


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
