"""The checkpoint file of the simulated kubelet's device manager."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kubelet import checkpoint
from clusters.kubelet.kubelet_devices import Allocation, Count, Device, DeviceBook

R = "example.com/slice"


@pytest.mark.promise("G3-10")
def test_the_file_has_the_shape_that_plugins_read() -> None:
    """The checkpoint lists ids by NUMA node (-1 is none), and the healthy ids of each resource."""
    book = DeviceBook()
    book.replace_devices(R, [Device("a"), Device("b"), Device("c", healthy=False)])
    book.store(Allocation("uid-1", "main", R, ("b", "a"), b"\x0a\x01"))

    document = json.loads(checkpoint.encode(book))

    assert document["Data"] == {
        "PodDeviceEntries": [
            {
                "PodUID": "uid-1",
                "ContainerName": "main",
                "ResourceName": R,
                "DeviceIDs": {"-1": ["b", "a"]},
                "AllocResp": "CgE=",
            }
        ],
        "RegisteredDevices": {R: ["a", "b"]},
    }


names = st.text("abc", min_size=1, max_size=4)
allocations = st.builds(
    Allocation, names, names, st.just(R), st.lists(names, unique=True, max_size=4).map(tuple), st.binary()
)


@pytest.mark.promise("G3-10")
@given(st.lists(allocations, unique_by=lambda a: a.key))
def test_what_is_written_is_read(many) -> None:
    """Any allocations come back equal."""
    book = DeviceBook()
    for allocation in many:
        book.store(allocation)

    assert checkpoint.decode(checkpoint.encode(book))[0] == tuple(many)


def test_resources_come_back_without_devices(tmp_path) -> None:
    """Until its plugin registers again a resource counts 0, and its allocations stay."""
    before, after = DeviceBook(), DeviceBook()
    before.replace_devices(R, [Device("a")])
    before.store(Allocation("p", "c", R, ("a",)))
    checkpoint.write(tmp_path, before)

    assert checkpoint.restore(tmp_path, after)
    assert after.knows(R)
    assert after.counts() == {R: Count(0, 0)}
    assert after.in_use(R) == {"a"}


def test_a_file_of_a_kubelet_before_1_20_is_refused() -> None:
    """A checkpoint with ids without NUMA nodes, as kubelets before 1.20 wrote it, is refused."""
    entry = {"PodUID": "u", "ContainerName": "c", "ResourceName": R, "DeviceIDs": ["a"], "AllocResp": ""}
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {R: ["a"]}}
    content = json.dumps({"Data": data, "Checksum": checkpoint.checksum(data)}).encode()

    with pytest.raises(checkpoint.CheckpointError, match="not a checkpoint"):
        checkpoint.decode(content)


def test_no_file_is_a_new_machine(tmp_path) -> None:
    """A machine without a checkpoint is new, so nothing is restored."""
    assert not checkpoint.restore(tmp_path, DeviceBook())


@pytest.mark.promise("G3-10")
@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"Data":{},"Checksum":1}', b"\xff"], ids=repr)
def test_a_broken_file_is_refused_with_a_reason(content) -> None:
    """Empty, foreign and damaged files are all refused."""
    with pytest.raises(checkpoint.CheckpointError, match="checksum|not a checkpoint"):
        checkpoint.decode(content)
