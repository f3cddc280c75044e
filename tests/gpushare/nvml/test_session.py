"""Promises of gpushare.nvml.session: real pynvml on simulated cards."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.core.answers import KEYS, PLACES
from fake_nvml.core.returns import CODES
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of
from gpushare.nvml.api import NoDriverError, NvmlError, Reports, Xid
from gpushare.nvml.session import NvmlSession, NvmlThread

Simulate = Callable[..., State]

KNOWS_ACTIONS = "580.65.06"


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """Where the kernel links the cards of its NVIDIA driver; two are there."""
    folder = tmp_path / "sys/bus/pci/drivers/nvidia"
    folder.mkdir(parents=True)
    for address in ("0000:04:00.0", "0000:07:00.0"):
        (folder / address).symlink_to("card")
    return folder


@pytest.fixture
def session(clean_pynvml: None, tmp_path: Path, bus: Path) -> Iterator[NvmlSession]:
    """A closed one on a machine with a kernel that reports its cards; put away after the test."""
    opened = NvmlSession(None, sysfs=tmp_path / "sys")
    yield opened
    opened.close()


def uuids(state: State) -> list[str]:
    return [card.uuid for card in state.cards()]


def test_a_fault_between_two_sessions_is_noticed(
    simulate: Simulate, session: NvmlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No events are read while NVML is opened again; the driver's advice afterwards shows the fault."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, second = uuids(state)
    assert session.renew().missed == frozenset()
    state.post_xid(second, 48)
    session.poll()
    assert session.renew().missed == frozenset()

    # Posted by the very call that opens NVML: after the last look of the old session.
    init = pynvml.nvmlInitWithFlags
    monkeypatch.setattr(pynvml, "nvmlInitWithFlags", lambda flags: (state.post_xid(first, 48), init(flags)))
    assert session.renew().missed == {first}
    assert session.poll() == Reports()


@pytest.mark.parametrize("how", ["lose", "remove_card"])
def test_a_card_that_goes_between_two_sessions_is_only_missing(
    simulate: Simulate, session: NvmlSession, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A card that goes between two sessions is missing in the new one, and is not among the cards with missed reports."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, second = uuids(state)
    session.renew()
    init = pynvml.nvmlInitWithFlags
    monkeypatch.setattr(pynvml, "nvmlInitWithFlags", lambda flags: (getattr(state, how)(first), init(flags)))
    survey = session.renew()

    assert ([card.uuid for card in survey.cards], survey.missed) == ([second], frozenset())


def test_a_storm_of_events_of_one_card_keeps_no_other_waiting(simulate: Simulate, session: NvmlSession) -> None:
    """One poll reads events of each card."""
    state = simulate("t4x2")
    first, second = uuids(state)
    session.renew()
    for _ in range(200):
        state.post_xid(first, 31)
    state.post_xid(second, 48)
    xids = session.poll().xids

    assert (len(xids) < 201, xids[-1]) == (True, Xid(second, 48))


def test_many_sessions_leave_nothing_behind(simulate: Simulate, session: NvmlSession) -> None:
    """NVML counts its users; one that is forgotten would freeze the list of cards."""
    simulate("t4x2")
    for _ in range(50):
        session.renew()
    session.close()
    session.close()

    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_a_session_without_event_sets_reports_nothing(simulate: Simulate) -> None:
    """With --health-check=false the cards are still counted, and answer."""
    state = simulate("t4x2")
    first, _ = uuids(state)
    deaf = NvmlSession(None, listen=False)
    try:
        assert len(deaf.renew().cards) == 2
        state.post_xid(first, 48)
        assert (deaf.poll(), deaf.check(first).answers) == (Reports(), True)
    finally:
        deaf.close()


def test_a_card_that_is_put_back_is_seen_in_the_kernel(simulate: Simulate, clean_pynvml: None) -> None:
    """The count and all names are as before, but the card is lost to the old session."""
    state = simulate("t4x2")
    first, _ = uuids(state)
    session = NvmlSession(None, sysfs=folder_of(state.path))
    session.count()
    state.remove_card(first)
    state.add_card("t4", uuid=first)

    assert (session.poll().is_outdated, session.count().unreadable) == (True, ())
    session.close()


def test_unread_events_survive_a_reopening_of_nvml(simulate: Simulate, session: NvmlSession) -> None:
    """A freed event set takes its events with it. More than one turn takes are reported later, even if opening fails then."""
    state = simulate("t4x2")
    first, second = uuids(state)
    session.renew()
    for _ in range(100):
        state.post_xid(first, 31)
    state.post_xid(first, 79)
    state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(NoDriverError):
        session.renew()
    state.set_init_return(0)
    session.renew()
    state.post_xid(second, 48)

    assert [xid.code for xid in session.poll().xids] == [31] * 100 + [79, 48]
    assert session.poll() == Reports()


@pytest.fixture
def opened(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry each time that NVML is initialised."""
    calls: list[int] = []
    init = pynvml.nvmlInitWithFlags
    monkeypatch.setattr(pynvml, "nvmlInitWithFlags", lambda flags: (calls.append(flags), init(flags)))
    return calls


def test_count_leaves_nvml_open_if_the_kernel_reports_changes(
    simulate: Simulate, session: NvmlSession, opened: list[int]
) -> None:
    """The cards' facts are read again, and no Xid can fall into a gap."""
    state = simulate("t4x2", driver="535.104.05")
    first = state.add_card("a100-sxm4-80gb")
    state.remove_card(uuids(state)[1])
    assert not any(card.mig for card in session.count().cards)
    state.set_value(first, "mig", "on")

    assert [card.uuid for card in session.count().cards if card.mig] == [first]
    assert (len(opened), session.poll()) == (1, Reports())


@pytest.mark.parametrize(
    "what", ["a lost card", "NVML shut under us", "ten minutes", "another number than the kernel's"]
)
def test_a_count_that_may_not_be_whole_is_made_again(
    simulate: Simulate, session: NvmlSession, opened: list[int], bus: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A lost card may be another by now, or be back; and the kernel may tell of a card before NVML can count it, or after."""
    state = simulate("t4x2")
    session.count()
    if what == "a lost card":
        state.lose(uuids(state)[0])
    elif what == "NVML shut under us":
        pynvml.nvmlShutdown()
    elif what == "ten minutes":
        session.count()
        assert len(opened) == 1
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 600)
    else:
        (bus / "0000:0a:00.0").symlink_to("card")
        session.count()
        assert session.poll() == Reports()
        opened.pop()
    session.count()

    assert len(opened) == 2


async def test_questions_are_asked_one_at_a_time_in_their_order(simulate: Simulate, session: NvmlSession) -> None:
    """In one thread, which is not the loop's; it closes the session after the last question, and ends."""
    simulate("t4x2")
    thread, seen = NvmlThread(session), list[tuple[int, str]]()
    questions = (lambda _, n=n: seen.append((n, threading.current_thread().name)) for n in range(20))
    await asyncio.gather(thread.ask(NvmlSession.renew), *map(thread.ask, questions))
    thread.close()

    assert (thread.join(30), seen) == (True, [(n, "nvml") for n in range(20)])
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_a_loop_that_is_gone_gets_no_answer(session: NvmlSession) -> None:
    """A program may end while the driver is busy: the thread then answers the next question."""
    thread, release = NvmlThread(session), threading.Event()

    async def leave() -> None:
        asking.append(asyncio.ensure_future(thread.ask(lambda _: release.wait())))
        await asyncio.sleep(0)

    asking: list[asyncio.Future[bool]] = []
    asyncio.run(leave())
    release.set()

    assert asyncio.run(thread.ask(lambda _: "on")) == "on"
    thread.close()
    assert thread.join(30)


# Cards with a driver that does not answer everything: each function of NVML, with several return codes, on one card of two.
CARD_KEYS = [key for key in KEYS if key.startswith("nvmlDevice")]
# Codes that programs treat in a way of their own, and two that have no meaning. UNINITIALIZED is left out: a library that is
# initialised does not answer it for one card alone.
_NAMES = (
    *("NOT_SUPPORTED", "NO_PERMISSION", "NOT_FOUND", "INSUFFICIENT_SIZE", "DRIVER_NOT_LOADED", "TIMEOUT"),
    *("FUNCTION_NOT_FOUND", "GPU_IS_LOST", "LIB_RM_VERSION_MISMATCH", "ARGUMENT_VERSION_MISMATCH", "UNKNOWN"),
)
REFUSALS = (*(CODES[name] for name in _NAMES), 4711)


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
