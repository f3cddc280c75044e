"""The devices that the simulated kubelet knows."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clusters.kubelet.kubelet_devices import Allocation, AllocationError, Device, DeviceBook, complete

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
