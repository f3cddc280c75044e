from __future__ import annotations

from clusters.kubelet.devices import Count
from clusters.kubelet.machine import Machine
from clusters.kubelet.node_status import difference, resources_of

R = "example.com/slice"


def test_devices_are_the_kubelets_and_other_amounts_the_operators():
    capacity, allocatable = resources_of(Machine("n1"), {R: Count(9, 4)}, {R: "77", "aliyun.com/gpu-count": "2"})

    assert (capacity[R], allocatable[R]) == ("9", "4")
    assert (capacity["aliyun.com/gpu-count"], allocatable["aliyun.com/gpu-count"]) == ("2", "2")


def test_only_what_differs_is_written():
    """The same amount in another notation is no difference; what has no capacity is taken away."""
    wanted = ({"memory": "1Gi", R: "2"}, {"memory": "1Gi", R: "1"})
    status = {"capacity": {"memory": "1024Mi", R: "2"}, "allocatable": {"memory": "1Gi", R: "2", "odd.com/x": "1"}}

    assert difference(status, wanted) == {"allocatable": {R: "1", "odd.com/x": None}}
    assert difference({"capacity": wanted[0], "allocatable": wanted[1]}, wanted) == {}
