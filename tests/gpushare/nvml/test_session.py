"""Promises of gpushare.nvml.session: real pynvml on simulated cards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.state import State
from gpushare.nvml.api import NoDriverError, Reports
from gpushare.nvml.session import NvmlSession

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
