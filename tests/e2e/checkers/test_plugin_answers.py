"""Each rule for a plugin's lists and answers refuses the calls that break it, and lets pass what is well."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from clusters.kubelet import plugin_client
from clusters.kubelet.plugin_client import PluginCall, note
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from clusters.kubelet.proto import podresources_pb2 as pr
from e2e import spec
from e2e.checkers import UnknownError
from e2e.checkers.history import Card, Cards, Entry, judge
from e2e.checkers.plugin_answers import PLUGIN_RULES
from e2e.whole_cluster import WholeCluster

MEMORY = spec.RESOURCE_MEMORY
SOCKET = Path("/kubelets/n/device-plugins/p.sock")
CARDS = Cards(0.0, "n", {0: Card(14, "GPU-a"), 1: Card(10, "GPU-b")})


def call(method: str, question: object, answer: object, at: float = 2.0) -> PluginCall:
    """A call for the pod x/a."""
    return PluginCall(at, SOCKET, MEMORY, method, question, answer, "x/a")


REGISTER = PluginCall(0.5, SOCKET, MEMORY, "Register")
END = PluginCall(1.5, SOCKET, MEMORY, "ListAndWatch")


def listed(*healthy: str, unhealthy: tuple[str, ...] = (), at: float = 1.0) -> PluginCall:
    """A list of a plugin."""
    devices = [
        pb.Device(ID=one, health="Unhealthy" if one in unhealthy else "Healthy") for one in (*healthy, *unhealthy)
    ]
    return PluginCall(at, SOCKET, MEMORY, "ListAndWatch", None, pb.ListAndWatchResponse(devices=devices))


def preferred(*ids: str, size: int = 2, must: tuple[str, ...] = ()) -> PluginCall:
    """The preferred ones of a1, a2, b1, and those that must be there."""
    one = pb.ContainerPreferredAllocationRequest(
        available_deviceIDs=("a1", "a2", "b1"), must_include_deviceIDs=must, allocation_size=size
    )
    given = pb.ContainerPreferredAllocationResponse(deviceIDs=ids)
    question = pb.PreferredAllocationRequest(container_requests=[one])
    return call("GetPreferredAllocation", question, pb.PreferredAllocationResponse(container_responses=[given]))


def granted(*ids: str, card: object = 0, units: object = None, visible: str = "GPU-a", answers: int = 1) -> PluginCall:
    """An Allocate for one container."""
    given = {spec.ENV_INDEX: str(card), spec.ENV_CONTAINER_UNITS: str(units or len(ids)), spec.ENV_VISIBLE: visible}
    return call(
        "Allocate",
        pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)]),
        pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs=given)] * answers),
    )


def held(holders: Mapping[str, tuple[str, ...]]) -> PluginCall:
    """The kubelet's records of the containers of one pod."""
    containers = [
        pr.ContainerResources(name=name, devices=[pr.ContainerDevices(resource_name=MEMORY, device_ids=ids)])
        for name, ids in holders.items()
    ]
    pod = pr.PodResources(namespace="x", name="a", containers=containers)
    answer = pr.ListPodResourcesResponse(pod_resources=[pod])
    return PluginCall(4.0, Path("/kubelets/n/pod-resources/kubelet.sock"), "", "List", None, answer)


LIST = listed("a1", "a2", "b1")
REFUSED = call("Allocate", granted("zz").question, None)
GOOD: list[Entry] = [
    CARDS, REGISTER, LIST, END, REGISTER, LIST, preferred("a2", "a1", must=("a1",)), preferred("z", "a1", must=("z",)),
    preferred(), granted("a1", "a2"), granted("b1", card=1, visible="1"), granted("b1", card=1, visible="void"), REFUSED,
    # Nothing that is no card is given, and a card that becomes unhealthy during the call was well when it was asked for.
    granted("zz", card=-1), granted("zz", card="none"), granted("zz", card="0,1"),
    listed("b1", unhealthy=("a1", "a2"), at=3.0), granted("a1", "a2"), held({"c0": ("a1", "a2"), "c1": ("b1",)}),
]  # fmt: skip


def test_calls_that_are_well_have_no_findings() -> None:
    """A plugin that registers twice, refusals, and lists that change between an Allocate and its answer."""
    assert judge(GOOD, *PLUGIN_RULES) == []


@pytest.mark.parametrize(
    ("history", "line"),
    [
        ([listed("a1", "a2", "a1")], "1.0 s, list: n: 1 of its ids are there before"),
        ([LIST, REGISTER], "0.5 s, open stream: n: aliyun.com/gpu-mem is registered while its old stream is open"),
        ([preferred("a1")], "2.0 s, preferred ids: x/a, n: 1 ids, 1 different ones, for 2"),
        ([preferred("a1", "a2", must=("b1",))],
         "2.0 s, preferred ids: x/a, n: ['a1', 'a2'] for ['b1'] and others that are free"),
        ([LIST, granted("a1", answers=0)], "2.0 s, answers: x/a, n: 0 answers for 1 containers"),
        ([LIST, granted("zz")],
         "2.0 s, granted ids: x/a, card 0 of n: a card is given for zz, which is not announced as healthy"),
        ([listed("a1", unhealthy=("a2",)), granted("a1", "a2")],
         "2.0 s, granted ids: x/a, card 0 of n: a card is given for a2, which is not announced as healthy"),
        ([LIST, listed("a1", at=1.5), granted("a2")],
         "2.0 s, granted ids: x/a, card 0 of n: a card is given for a2, which is not announced as healthy"),
        ([CARDS, LIST, granted("a1", card=2)], "2.0 s, named card: x/a, card 2 of n: the node has no such card"),
        ([CARDS, LIST, granted("a1", visible="GPU-b")],
         "2.0 s, named card: x/a, card 0 of n: the container sees GPU-b"),
        ([CARDS, LIST, granted("a1", units=2)], "2.0 s, named card: x/a, card 0 of n: 2 units for 1 ids"),
        ([held({"c0": ("a1", "a2"), "c1": ("a2",)})], "4.0 s, held ids: x/a, n: c1 holds a2 of x/a/c0"),
    ],
)  # fmt: skip
def test_calls_that_break_a_rule_are_refused(history: list[Entry], line: str) -> None:
    """There is one finding, and its line has time, rule, pod, card and node."""
    assert list(map(str, judge(history, *PLUGIN_RULES))) == [line]


def test_calls_are_judged_while_they_come(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a session; a rule that fails in itself is no verdict."""
    listener = WholeCluster(pytestconfig)
    monkeypatch.setattr(plugin_client, "LISTENERS", [listener.take_call])
    note(LIST)
    note(granted("zz"))
    note(dataclasses.replace(granted("yy"), resource="example.com/of-a-case"))
    assert [one.rule for one in listener.call_findings()] == ["granted ids"]
    note(call("Allocate", object(), object()))
    with pytest.raises(UnknownError, match="granted_ids failed at"):
        listener.call_findings()
