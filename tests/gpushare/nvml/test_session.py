"""Promises of gpushare.nvml.session and events: real pynvml on simulated cards of every driver era."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.state import State
from fake_nvml.sysfs import folder_of
from gpushare.nvml import xid_events
from gpushare.nvml.api import Checkup, NoDriverError, NotInitializedError, NvmlError, Reports, Xid
from gpushare.nvml.session import NvmlSession

Simulate = Callable[..., State]

# Before R450 events have an older call; field 230 came with R570.
ERAS = ["418.87.00", "450.66", "470.57.02", "535.104.05", "580.65.06"]
KNOWS_ACTIONS = "580.65.06"


@pytest.fixture
def session(clean_pynvml: None) -> Iterator[NvmlSession]:
    """Closed; put away after the test."""
    opened = NvmlSession(None)
    yield opened
    opened.close()


def uuids(state: State) -> list[str]:
    return [card.uuid for card in state.cards()]


@pytest.mark.parametrize("driver", ERAS)
def test_each_xid_is_reported_once_and_of_its_card(simulate: Simulate, session: NvmlSession, driver: str) -> None:
    """In their order, whatever the driver."""
    state = simulate("mixed", driver=driver)
    first, second, third = uuids(state)
    session.renew()
    for uuid, xid in ((second, 31), (second, 48), (third, 13)):
        state.post_xid(uuid, xid)

    assert session.poll() == Reports((Xid(second, 31), Xid(second, 48), Xid(third, 13)))
    assert session.poll() == Reports()
    state.post_xid(first, 48)
    assert session.poll().xids == (Xid(first, 48),)


@pytest.mark.parametrize("driver", ERAS)
def test_a_lost_card_is_reported_once_and_others_go_on(simulate: Simulate, session: NvmlSession, driver: str) -> None:
    """A lost card is reported once, with its last Xid and its UUID. A set of events with it would return immediately for ever."""
    state = simulate("mixed", driver=driver)
    first, second, _ = uuids(state)
    session.renew()
    state.post_xid(first, 79, lose=True)
    state.post_xid(second, 48)

    assert session.poll() == Reports((Xid(first, 79), Xid(second, 48)), lost=(first,))
    assert session.poll() == Reports()
    state.post_xid(second, 31)
    assert session.poll().xids == (Xid(second, 31),)


def test_nvml_shut_during_a_poll_loses_no_event(
    simulate: Simulate, session: NvmlSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events from before the first refusal are reported; the next question is refused."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, _ = uuids(state)
    session.renew()
    state.post_xid(first, 48)
    following = xid_events.next_event

    def following_and_shut(from_set: object) -> object:
        event = following(from_set)
        state.add_fault("nvmlEventSetWait*", code=pynvml.NVML_ERROR_UNINITIALIZED)
        return event

    monkeypatch.setattr(xid_events, "next_event", following_and_shut)

    assert session.poll().xids == (Xid(first, 48),)
    with pytest.raises(NotInitializedError):
        session.poll()


@pytest.mark.parametrize(("driver", "action"), [("535.104.05", None), (KNOWS_ACTIONS, 1)])
def test_what_the_driver_asks_for_is_read_where_it_says_so(
    simulate: Simulate, session: NvmlSession, driver: str, action: int | None
) -> None:
    """NVML's field 230."""
    state = simulate("t4x2", driver=driver)
    first, second = uuids(state)
    session.renew()
    state.post_xid(first, 48)

    assert session.check(first) == Checkup(answers=True, action=action)
    assert session.check(second).action in (None, 0)
    assert session.check("GPU-unknown") == Checkup(answers=False)


def test_a_fault_between_two_sessions_is_noticed(simulate: Simulate, session: NvmlSession) -> None:
    """No events are read while NVML is opened again; the driver's advice afterwards shows the fault."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, second = uuids(state)
    assert session.renew().missed == frozenset()
    state.post_xid(second, 48)
    session.poll()
    assert session.renew().missed == frozenset()

    # Posted by the very call that opens NVML: after the last look of the old session.
    init = pynvml.nvmlInitWithFlags

    def init_after_a_fault(flags: int) -> None:
        state.post_xid(first, 48)
        init(flags)

    pynvml.nvmlInitWithFlags = init_after_a_fault
    try:
        assert session.renew().missed == {first}
    finally:
        pynvml.nvmlInitWithFlags = init
    assert session.poll() == Reports()


def test_recovery_asked_for_at_first_sight_is_an_unread_fault(simulate: Simulate, session: NvmlSession) -> None:
    """At the start, and after the driver was away; a card that comes back with the same is no news."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, _ = uuids(state)
    state.post_xid(first, 48)

    assert session.renew().missed == {first}
    assert session.renew().missed == frozenset()
    state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(NoDriverError):
        session.renew()
    state.set_init_return(0)
    assert session.renew().missed == {first}


@pytest.mark.parametrize("driver", ERAS)
def test_unread_events_survive_a_reopening_of_nvml(simulate: Simulate, session: NvmlSession, driver: str) -> None:
    """An event set that is freed takes its waiting events with it; if opening fails then, they are reported later."""
    state = simulate("t4x2", driver=driver)
    first, second = uuids(state)
    session.renew()
    state.post_xid(first, 48)
    state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(NoDriverError):
        session.renew()
    state.set_init_return(0)
    session.renew()
    state.post_xid(second, 31)

    assert session.poll().xids == (Xid(first, 48), Xid(second, 31))
    assert session.poll() == Reports()


def test_a_storm_of_xids_is_whole_over_a_new_session(simulate: Simulate, session: NvmlSession) -> None:
    """More than one turn takes, and the last of them is the one that counts."""
    state = simulate("t4x2", driver="535.104.05")
    first, _ = uuids(state)
    session.renew()
    for _ in range(100):
        state.post_xid(first, 31)
    state.post_xid(first, 79)
    session.renew()

    assert [xid.code for xid in session.poll().xids] == [31] * 100 + [79]


@pytest.mark.parametrize("how", ["lose", "remove_card"])
def test_a_card_that_goes_between_two_sessions_is_only_missing(
    simulate: Simulate, session: NvmlSession, how: str
) -> None:
    """A card that goes between two sessions is missing in the new one, and is not among the cards with missed reports."""
    state = simulate("t4x2", driver=KNOWS_ACTIONS)
    first, second = uuids(state)
    session.renew()
    init = pynvml.nvmlInitWithFlags

    def init_after_the_loss(flags: int) -> None:
        getattr(state, how)(first)
        init(flags)

    pynvml.nvmlInitWithFlags = init_after_the_loss
    try:
        survey = session.renew()
    finally:
        pynvml.nvmlInitWithFlags = init

    assert ([card.uuid for card in survey.cards], survey.missed) == ([second], frozenset())


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """Where the kernel links the cards of its NVIDIA driver; two are there."""
    folder = tmp_path / "sys/bus/pci/drivers/nvidia"
    folder.mkdir(parents=True)
    for address in ("0000:04:00.0", "0000:07:00.0"):
        (folder / address).symlink_to("card")
    return folder


@pytest.fixture
def told(clean_pynvml: None, tmp_path: Path, bus: Path) -> Iterator[NvmlSession]:
    """A session on a machine with a kernel that reports its cards; put away after the test."""
    opened = NvmlSession(None, sysfs=tmp_path / "sys")
    yield opened
    opened.close()


@pytest.fixture
def opened(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry each time that NVML is initialised."""
    calls: list[int] = []
    init = pynvml.nvmlInitWithFlags
    monkeypatch.setattr(pynvml, "nvmlInitWithFlags", lambda flags: (calls.append(flags), init(flags)))
    return calls


def test_count_leaves_nvml_open_if_the_kernel_reports_changes(
    simulate: Simulate, told: NvmlSession, opened: list[int]
) -> None:
    """The cards' facts are read again, and no Xid can fall into a gap."""
    state = simulate("t4x2", driver="535.104.05")
    first = state.add_card("a100-sxm4-80gb")
    state.remove_card(uuids(state)[1])
    assert not any(card.mig for card in told.count().cards)
    state.set_value(first, "mig", "on")

    assert [card.uuid for card in told.count().cards if card.mig] == [first]
    assert (len(opened), told.poll()) == (1, Reports())


def test_card_reported_by_the_kernel_is_met_at_the_next_count(
    simulate: Simulate, told: NvmlSession, opened: list[int], bus: Path
) -> None:
    """Each poll reports that a count is due, until it was made."""
    state = simulate("t4x2")
    told.count()
    added = state.add_card("t4")
    (bus / "0000:0a:00.0").symlink_to("card")

    assert told.poll() == told.poll() == Reports(is_outdated=True)
    assert added in [card.uuid for card in told.count().cards]
    assert (len(opened), told.poll()) == (2, Reports())


@pytest.mark.parametrize(
    "what", ["a lost card", "NVML shut under us", "ten minutes", "another number than the kernel's"]
)
def test_a_count_that_may_not_be_whole_is_made_again(
    simulate: Simulate, told: NvmlSession, opened: list[int], bus: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A lost card may be another by now, or be back; and the kernel may tell of a card before NVML can count it, or after."""
    state = simulate("t4x2")
    told.count()
    if what == "a lost card":
        state.lose(uuids(state)[0])
    elif what == "NVML shut under us":
        pynvml.nvmlShutdown()
    elif what == "ten minutes":
        told.count()
        assert len(opened) == 1
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 600)
    else:
        (bus / "0000:0a:00.0").symlink_to("card")
        told.count()
        assert told.poll() == Reports()
        opened.pop()
    told.count()

    assert len(opened) == 2


def test_kernel_reports_a_driver_that_goes_and_comes_back(
    simulate: Simulate, clean_pynvml: None, opened: list[int]
) -> None:
    """Each time at the next poll, and the count after it is of the driver as it is."""
    state = simulate("t4x2")
    session = NvmlSession(None, sysfs=folder_of(state.path))
    session.count()
    state.set_init_return(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert session.poll() == Reports(is_outdated=True)
    with pytest.raises(NoDriverError):
        session.count()
    state.set_init_return(0)

    assert [card.uuid for card in session.count().cards] == uuids(state)
    assert session.poll() == Reports()
    session.close()


def test_a_card_that_is_put_back_is_seen_in_the_kernel(simulate: Simulate, clean_pynvml: None) -> None:
    """Though the count and all names are as before: to the old session it is lost."""
    state = simulate("t4x2")
    first, _ = uuids(state)
    session = NvmlSession(None, sysfs=folder_of(state.path))
    session.count()
    state.remove_card(first)
    state.add_card("t4", uuid=first)

    assert session.poll().is_outdated
    assert session.count().unreadable == ()
    session.close()


def test_without_the_kernels_list_each_count_reopens_nvml(
    simulate: Simulate, tmp_path: Path, opened: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """A session never learns of a card that came later. One line names the folder: a flag may be mistyped, a mount missing."""
    state = simulate("t4x2")
    session = NvmlSession(None, sysfs=tmp_path / "nowhere")
    session.count()
    added = state.add_card("t4")

    assert session.poll() == Reports()
    assert added in [card.uuid for card in session.count().cards]
    assert len(opened) == 2
    session.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the kernel does not tell which cards the driver has, NVML is opened again for each count "
        f"sys_root={tmp_path}/nowhere"
    ]


def test_a_lost_card_keeps_its_place_in_a_new_session(simulate: Simulate, session: NvmlSession) -> None:
    """A lost card keeps its place in a new session: it is unreadable at its index."""
    state = simulate("t4x2")
    first, second = uuids(state)
    state.lose(first)
    survey = session.renew()

    assert ([card.uuid for card in survey.cards], [card.index for card in survey.unreadable]) == ([second], [0])
    assert session.check(first) == Checkup(answers=False)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_UNKNOWN])
def test_a_card_without_events_only_lacks_reports(
    simulate: Simulate, session: NvmlSession, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """A card without events is not unhealthy for that (D9), and one line reports it."""
    state = simulate("t4x2")
    first, second = uuids(state)
    state.add_fault("nvmlDeviceRegisterEvents", card=first, code=code)
    with caplog.at_level(logging.WARNING):
        survey = session.renew()
        session.renew()

    assert [card.uuid for card in survey.cards] == [first, second]
    assert [first in line for line in caplog.messages if "not watched" in line] == [True]
    state.post_xid(second, 48)
    assert session.poll() == Reports((Xid(second, 48),))


def test_an_error_of_one_cards_wait_leaves_the_others(simulate: Simulate, session: NvmlSession) -> None:
    """The first of three sets fails in its wait; it is read again after the next count."""
    state = simulate("mixed")
    first, second, third = uuids(state)
    session.renew()
    for uuid in (first, second, third):
        state.post_xid(uuid, 48)
    state.add_fault("nvmlEventSetWait", code=pynvml.NVML_ERROR_UNKNOWN, count=1)
    heard = session.poll()

    assert [uuid for uuid, _ in heard.failed] == [first]
    assert heard.xids == (Xid(second, 48), Xid(third, 48))
    session.renew()
    state.post_xid(first, 79)
    assert session.poll().xids == (Xid(first, 79),)


def test_a_session_without_event_sets_reports_nothing(simulate: Simulate) -> None:
    """--health-check=false: the cards are still counted."""
    state = simulate("t4x2")
    first, _ = uuids(state)
    deaf = NvmlSession(None, listen=False)
    try:
        assert len(deaf.renew().cards) == 2
        state.post_xid(first, 48)
        assert deaf.poll() == Reports()
        assert deaf.check(first).answers
    finally:
        deaf.close()


def test_a_storm_of_events_of_one_card_keeps_no_other_waiting(simulate: Simulate, session: NvmlSession) -> None:
    """One poll reads events of each card."""
    state = simulate("t4x2")
    first, second = uuids(state)
    session.renew()
    for _ in range(200):
        state.post_xid(first, 31)
    state.post_xid(second, 48)
    heard = session.poll()

    assert len(heard.xids) < 201
    assert heard.xids[-1] == Xid(second, 48)


def test_many_sessions_leave_nothing_behind(simulate: Simulate, session: NvmlSession) -> None:
    """NVML counts its users; one that is forgotten would freeze the list of cards."""
    simulate("t4x2")
    for _ in range(50):
        session.renew()
    session.close()
    session.close()

    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_an_unknown_error_of_the_count_closes_the_session(simulate: Simulate, session: NvmlSession) -> None:
    """No half-open state."""
    state = simulate("t4x2")
    state.add_fault("nvmlDeviceGetCount", code=pynvml.NVML_ERROR_UNKNOWN, count=1)
    with pytest.raises(NvmlError):
        session.renew()
    with pytest.raises(NotInitializedError):
        session.poll()

    assert len(session.renew().cards) == 2
