"""Promises of the parts of the simulated kubelet: its devices, the cards that a container sees, the one program that it runs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.images.behaviour import PROBE, Behaviours, probe_container
from clusters.kubelet.kubelet_cards import Cards, RealCard, visible_cards
from clusters.kubelet.kubelet_devices import Allocation, AllocationError, Device, DeviceBook, complete
from clusters.kubelet.memory_limits import MemoryLimits
from clusters.kubelet.pods import Container, DeviceRequests, Kind
from clusters.kubelet.runtime import Probes, Runtime
from clusters.provider import LimitSpec

R = "example.com/slice"
NAMES = [f"id{number}" for number in range(12)]
sizes = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.lists(st.integers(0, 11))), max_size=12)


@given(sizes, st.integers())
def test_no_id_belongs_to_two_pods(requests: list[tuple[int, bool, list[int]]], seed: int) -> None:
    """Living pods never share an id and have as many as they asked for, whatever is wished and whatever ends."""
    book, rng = DeviceBook(), random.Random(seed)
    book.replace_devices(R, [Device(name) for name in NAMES])
    living: set[str] = set()
    for number, (size, ends, wishes) in enumerate(requests):
        uid = f"pod{number}"
        try:
            choice = book.choose((uid, "c", R), size, (), rng)
        except AllocationError:
            assert len(book.in_use(R)) + size > len(NAMES)
        else:
            assert choice is not None
            book.store(Allocation(uid, "c", R, complete(choice, [NAMES[wish] for wish in wishes], rng)))
            living.add(uid)
        if ends and living:
            living.discard(rng.choice(sorted(living)))
            book.release_all_but(living)
        held = [one for allocation in book.allocations() for one in allocation.ids]
        assert len(held) == len(set(held))
        assert set(held) <= set(NAMES)
    assert all(len(one.ids) == requests[int(one.pod_uid[3:])][0] for one in book.allocations())


CARDS = [RealCard(index, f"GPU-{index}", "Tesla T4", 15079, 0) for index in (0, 1)]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        *(("1,0", [1, 0]), ("0,0", [0]), ("GPU-1,0", [1, 0]), ("all", [0, 1])),
        *((value, []) for value in ("none", "void", "", None, "2", "0,7", "no-gpu-has-10GiB-to-run", "-1")),
    ],
)
def test_the_variable_says_which_cards_are_seen(value: str | None, indices: list[int]) -> None:
    """Cards come in the variable's order; whatever names no card of the node makes none visible."""
    assert [card.index for card in visible_cards(value, CARDS)] == indices


async def test_another_text_is_never_started(tmp_path: Path) -> None:
    """A command that differs in one character is simulated as any other, and creates nothing."""
    limits = MemoryLimits(tmp_path / "cgroup", tmp_path, Cards(), LimitSpec(), tmp_path / "cdi")
    runtime = Runtime(Behaviours(), Cards(), lambda: 0.0, tmp_path, Probes(tmp_path / "run", Cards()), limits)
    proof = tmp_path / "proof"
    command = [*probe_container("main", "python:3.12")["command"][:2], f"{PROBE}\nopen({str(proof)!r}, 'w')", "look"]
    container = Container("main", "python:3.12", Kind.APP, {}, (), tuple(command))
    run = await runtime.start("uid", container, {}, DeviceRequests())
    await runtime.settled()

    # Above any pid that a kernel gives.
    assert run.pid > 2**22
    assert run.exit is None
    assert not proof.exists()
