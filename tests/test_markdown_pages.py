"""The pages name what exists: files, events, reasons, states, commands and the figures of other pages."""

from __future__ import annotations

import importlib.util
import re
from typing import Final

import pytest
from msgspec.structs import replace

from gpushare import wire
from gpushare.deviceplugin.allocation.verification import HoldReason
from gpushare.deviceplugin.core.announced_cards import ENDED, health_of, no_cards
from gpushare.extender.core.book import Book
from gpushare.kubectl_gpushare.core import explanation
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.pod import was_started
from tests.tracked_files import ROOT, tracked

TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text()
# A path in backticks: folders and a name with one of the endings of our files.
_NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.(?:py|md|yaml|toml|c|h|proto))`")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _found(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Page and match, of all pages."""
    pages = [name for name in tracked() if name.endswith(".md")]
    return [(page, text) for page in pages for text in pattern.findall((ROOT / page).read_text())]


def test_links_of_pages_lead_to_files() -> None:
    """A link to a file of the repository leads to one that exists."""
    links = [(page, link) for page, link in _found(_LINK) if "://" not in link and not link.startswith("mailto:")]
    assert links
    assert [(page, link) for page, link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_files_named_in_pages_exist() -> None:
    """A file in backticks is the end of some path of the repository; runs write those in artefacts."""
    ends = {"/".join(parts[at:]) for parts in (name.split("/") for name in tracked()) for at in range(len(parts))}
    named = [(page, name) for page, name in _found(_NAMED) if not name.startswith("artefacts/")]
    assert named
    assert [(page, name) for page, name in named if name not in ends] == []


def test_troubleshooting_explains_every_event_and_reason() -> None:
    """Each event, reason of a refusal and reason of a held container has a row."""
    words = {text for name, text in vars(wire).items() if name.startswith(("EVENT_", "REASON_"))}
    words |= {reason.value for reason in HoldReason}
    assert sorted(word for word in words if f"| `{word}`" not in TROUBLES) == []


def test_troubleshooting_explains_the_condition_of_a_node() -> None:
    """Each status has a row, with its reason."""
    card = CardFacts(0, "GPU-0", "T4", 15079, 14)
    cards = [NodeCards(1, "ids", "GiB", "", (replace(card, healthy=healthy),)) for healthy in (True, False)]
    for health in (*map(health_of, cards), no_cards(""), ENDED):
        assert f"| `{health.status}`, `{health.reason}` |" in TROUBLES


def test_troubleshooting_names_no_unknown_event() -> None:
    """A row about an event is about one that a program writes."""
    events = {text for name, text in vars(wire).items() if name.startswith("EVENT_")}
    assert set(re.findall(r"`(GPUShare\w+)`", TROUBLES)) <= events | {wire.CONDITION_HEALTHY, wire.CONDITION_LIMITS}


PAGE: Final = ROOT / "docs" / "numbers.md"
ROWS: Final = re.findall(r"^\| (.*) \| \[.*\]\((.*)\) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("number", "page", "command"), ROWS, ids=[row[0] for row in ROWS])
def test_a_number_has_its_page_and_a_command(number: str, page: str, command: str) -> None:
    """The figures stand on the page, and the command is a target of make or a module, with files that are there."""
    published = " ".join((PAGE.parent / page).read_text().split())
    quoted = [text for text in re.findall(r"`(.+?)`", number) if not text.startswith("/")]
    assert [text for text in quoted if text not in published] == []
    target, module = re.search(r"`make ([\w-]+)", command), re.search(r"python -m ([\w.]+)", command)
    if target:
        assert f"\n{target[1]}: " in (ROOT / "Makefile").read_text()
    elif module:
        assert importlib.util.find_spec(module[1])
        assert [name for name in re.findall(r"\S+/\S+\.yaml", command) if not (ROOT / name).exists()] == []
    else:
        assert command.startswith("none is kept: ")


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
