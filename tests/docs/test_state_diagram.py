"""The states of a pod in docs/architecture.md are those of the code."""

from __future__ import annotations

import re
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.allocation.verification import HoldReason
from gpushare.extender.core.book import Book
from gpushare.kubectl_gpushare.core import explanation
from gpushare.model.pod import was_started
from tests.tracked_files import ROOT

DIAGRAM: Final = (ROOT / "docs" / "architecture.md").read_text().partition("## The states of a pod")[2].split("```")[1]


def test_the_diagram_has_the_states_of_the_code() -> None:
    """Those that explain names, those of the book, and a container that is held."""
    states = {explanation.WAITING, explanation.BOUND, explanation.ENDED, Book.assumed.__name__}
    states |= {was_started.__name__.removeprefix("was_"), wire.EVENT_HELD.removeprefix("GPUShare").lower()}
    assert set(re.findall(r"\[(\w+)\]", DIAGRAM)) == states


def test_the_diagram_names_what_others_can_see() -> None:
    """Its paths, its annotation and its event are those of the wire, and the final reasons are those of a held container."""
    paths = {path.rpartition("/")[2] for path in (wire.PATH_FILTER, wire.PATH_BIND)}
    assert set(re.findall(r"/(\w+):", DIAGRAM)) == paths
    assert set(re.findall(r"ALIYUN_\w+", DIAGRAM)) == {wire.ANNOTATION_ASSIGNED}
    assert set(re.findall(r"GPUShare\w+", DIAGRAM)) == {wire.EVENT_HELD}
    finals = {reason.value for reason in HoldReason if reason.is_final}
    assert {
        word for word in re.findall(r"[A-Z][a-z]+\w+", DIAGRAM) if word in {one.value for one in HoldReason}
    } == finals
