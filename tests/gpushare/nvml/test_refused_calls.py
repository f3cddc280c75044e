"""Cards with a driver that does not answer everything: each function of NVML, with several return codes, on one card of two."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_nvml.core.answers import KEYS, PLACES
from fake_nvml.core.returns import CODES
from fake_nvml.state import State
from gpushare.nvml.api import NvmlError, Xid
from gpushare.nvml.session import NvmlSession

Simulate = Callable[..., State]
CARD_KEYS = [key for key in KEYS if key.startswith("nvmlDevice")]
# Codes that programs treat in a way of their own, and two that have no meaning. UNINITIALIZED is left out: a library that is
# initialised does not answer it for one card alone.
_NAMES = (
    *("NOT_SUPPORTED", "NO_PERMISSION", "NOT_FOUND", "INSUFFICIENT_SIZE", "DRIVER_NOT_LOADED", "TIMEOUT"),
    *("FUNCTION_NOT_FOUND", "GPU_IS_LOST", "LIB_RM_VERSION_MISMATCH", "ARGUMENT_VERSION_MISMATCH", "UNKNOWN"),
)
REFUSALS = (*(CODES[name] for name in _NAMES), 4711)


@pytest.fixture
def session(clean_pynvml: None, tmp_path: Path) -> Iterator[NvmlSession]:
    opened = NvmlSession(None, sysfs=tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("driver", ["418.87.00", "580.65.06"])
@pytest.mark.parametrize("key", CARD_KEYS)
def test_a_call_that_is_refused_costs_at_most_its_own_card(
    simulate: Simulate, session: NvmlSession, key: str, driver: str
) -> None:
    """The other card is offered and watched, and the card itself is offered or reported with a reason."""
    state = simulate("t4x2", driver=driver)
    unhealthy, healthy = (card.uuid for card in state.cards())
    for code in REFUSALS:
        with state.mapped.writing() as content:
            content.cards[0].refused[PLACES[key]] = code

        survey = session.renew()

        assert healthy in {card.uuid for card in survey.cards}, code
        assert len(survey.cards) + len(survey.unreadable) == 2, code
        assert all(str(card.reason) for card in survey.unreadable), code
        session.check(unhealthy)
        with contextlib.suppress(NvmlError):
            session.processes(unhealthy)
        assert session.check(healthy).answers, code
        state.post_xid(healthy, 31)
        assert session.poll().xids == (Xid(healthy, 31),), code


@pytest.mark.parametrize(("box", "offered"), [("wsl2", 1), ("vgpu", 1), ("gb10", 0)])
def test_the_cards_of_virtual_machines_are_offered_or_reported(
    simulate: Simulate, session: NvmlSession, box: str, offered: int
) -> None:
    """A card that reports no memory cannot be shared, and the reason names the missing answer."""
    simulate(box)

    survey = session.renew()

    assert len(survey.cards) == offered
    assert len(survey.unreadable) == 1 - offered
    assert all("Not Supported" in card.reason for card in survey.unreadable)
    assert session.poll().xids == ()
