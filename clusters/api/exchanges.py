"""The questions to the programs under test, with their answers, for reports of failures: a logger that is off by default."""

from __future__ import annotations

import logging
from typing import Final

LOG: Final = logging.getLogger("clusters.exchanges")


def note(asked: str, question: object, code: object, answer: object) -> None:
    """One exchange: the method with its place, the question if it has a body, and the answer with its code."""
    LOG.debug("%s %s -> %s %s", asked, question, code, answer)
