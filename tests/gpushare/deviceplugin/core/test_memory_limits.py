"""Promises of gpushare.deviceplugin.core.memory_limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.deviceplugin.core.memory_limits import (
    CdiSpec,
    Fuse,
    LimitLook,
    NodeFacts,
    WhyNot,
    answered_mib,
    devices_with_hook,
    hook_fails,
    hook_failures,
    limit_texts,
    limits_condition,
    limits_mib,
    running_containers,
    verify,
    why_not_limited,
)
from gpushare.manifests import Pod
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.limits import STATES, ContainerLimit, encode_limits

MIB = 1024 * 1024
NAMES = {"GPU-0": "0", "GPU-1": "1"}
MISC = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\nmisc\t0\t1\t{}\n"
ABLE = NodeFacts("615.71.09", True, {}, "/host/sys/fs/cgroup", True, "nvidia/00000000:03:00.0/vidmem 15828320256")
REGISTRY = 'RegistryDwords: "{}"\n'


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        ({}, ["", ""]),
        ({"sets_limits": False}, ["DriverTooOld"] * 2),
        ({"is_cgroup_v2": False}, ["CgroupV1"] * 2),
        ({"dmem_capacity": "drm/x 5"}, ["KernelTooOld"] * 2),
        ({"dmem_capacity": "", "controllers": MISC.format(0)}, ["KernelTooOld"] * 2),
        ({"dmem_capacity": "", "controllers": MISC.format(1)}, ["", ""]),
        ({"parameters": REGISTRY.format("RmMemacctMode=0")}, ["SwitchedOff"] * 2),
        ({"parameters": REGISTRY.format("A=1;RmMemacctMode=0x0;B=2")}, ["SwitchedOff"] * 2),
        ({"parameters": REGISTRY.format("RmMemacctMode=0x03")}, ["", ""]),
        ({"hooks": {"0": True, "1": False}}, ["", "NoHook"]),
        ({"hooks": {"0": True}, "refusals": {"GPU-0": "Unknown Error"}}, ["NotSupported", ""]),
        ({"sets_limits": False, "is_cgroup_v2": False, "refusals": {"GPU-0": "x"}}, ["DriverTooOld"] * 2),
    ],
)  # fmt: skip
def test_a_node_that_cannot_limit_has_the_reason(facts: dict[str, Any], reasons: list[str]) -> None:
    """On such a node the variables would keep containers from starting; of several reasons the first to repair is named."""
    found = why_not_limited(replace(ABLE, **facts), NAMES)

    assert [found[uuid].reason if uuid in found else "" for uuid in NAMES] == reasons
    assert all(why.text for why in found.values())


def test_a_cdi_device_has_the_hooks_of_its_newest_file() -> None:
    """A hook counts in the edits of the device and in those for all; files of other kinds do not count."""
    ours = {"args": ["nvidia-cdi-hook", "apply-cuda-memory-limits", "--gpu-id", "GPU-0"]}
    other = {"hookName": "createContainer", "args": ["nvidia-cdi-hook", "update-ldcache"]}

    def spec(kind: str, hooks: list[Any], *devices: Any, **more: Any) -> CdiSpec:
        named = [{"name": name, "containerEdits": {"hooks": hooks}} for name in devices]
        return msgspec.convert({"cdiVersion": "1.0.0", "kind": kind, "devices": named, **more}, CdiSpec)

    specs = [
        spec("nvidia.com/gpu", [ours], "0", "1"),
        spec("nvidia.com/gpu", [other, {}], "1", "2"),
        spec("nvidia.com/gpu", [], "3", containerEdits={"hooks": [ours]}),
        spec("k8s.device-plugin.nvidia.com/gpu", [], "0"),
        CdiSpec("nvidia.com/gpu"),
    ]
    assert devices_with_hook(specs, "nvidia.com/gpu") == {"0": True, "1": False, "2": False, "3": True}


def node(*mib: int, unit: str = "GiB") -> NodeCards:
    facts = [CardFacts(index, f"GPU-{index}", "Tesla T4", size, 1) for index, size in enumerate(mib)]
    return NodeCards(1, "ids", unit, "boot", tuple(facts))


@pytest.mark.parametrize(
    ("cards", "of", "slack", "answered", "right"),
    [
        (((0, 4),), node(15360), Tolerance(), 4096, {0: 4096}),
        (((0, 4000),), node(15360, unit="MiB"), Tolerance(percent=10), 4400, {0: 4400}),
        (((0, 3),), node(15360, unit="256MiB"), Tolerance(bytes=256 * MIB), 1024, {0: 1024}),
        (((0, 15),), node(15109), Tolerance(percent=10), 15109, {0: 15109}),
        (((0, 15),), node(15000), Tolerance(), 15000, {0: 15000}),
        (((0, 8), (1, 4)), node(15360, 15360), Tolerance(), 8192, {0: 8192, 1: 4096}),
        (((0, 8), (1, 4)), node(15360, 8192), Tolerance(percent=50), 8192, {0: 12288, 1: 6144}),
        (((0, 8), (1, 4)), node(15360, 8191), Tolerance(), None, {0: 8192, 1: 4096}),
        (((0, 8), (2, 4)), node(15360, 8191), Tolerance(), None, {}),
        (((0, 8),), node(15360, unit="?"), Tolerance(), None, {}),
        ((), node(15360), Tolerance(), None, {}),
    ],
)
def test_a_limit_is_the_share_with_its_slack_within_the_card(
    cards: Any, of: NodeCards, slack: Tolerance, answered: int | None, right: dict[int, int]
) -> None:
    """The largest of several shares; none if it is more than another card of the container has."""
    assert answered_mib(cards, of, slack) == answered
    assert limits_mib(cards, of, slack) == right


def pod(uid: str = "u", *statuses: dict[str, Any], annotations: dict[str, str] | None = None, **more: Any) -> KeptPod:
    """A pod with an init container of 1 GiB and two containers of 4 and 2, and one without, on card 0."""
    amounts: dict[str, int | None] = {"main": 4, "side": 2, "plain": None}

    def container(name: str, units: int | None) -> dict[str, Any]:
        return {"name": name} | ({} if units is None else {"resources": {"limits": {"aliyun.com/gpu-mem": units}}})

    spec = {"containers": [container(*one) for one in amounts.items()], "initContainers": [container("first", 1)]}
    names = {"ALIYUN_COM_GPU_MEM_IDX": "0"} if annotations is None else annotations
    inits = [one for one in statuses if one["name"] == "first"]
    status = {"containerStatuses": [one for one in statuses if one not in inits], "initContainerStatuses": inits}
    document = {"metadata": {"uid": uid, "name": uid, "namespace": "d", "annotations": names}, "spec": spec}
    return keep(msgspec.convert(document | {"status": status, **more}, Pod))


def runs(name: str, at: str, kind: str = "running") -> dict[str, Any]:
    return {"name": name, "state": {kind: {}}, "containerID": f"containerd://{at}"}


def test_containers_that_run_are_verified_by_their_own_booking() -> None:
    """Init containers too; not one that waits, asks for nothing or has no id yet, nor a pod without a card."""
    statuses = [runs("first", "a"), runs("main", "b"), runs("plain", "c"), runs("side", "d", "waiting")]
    pods = [pod("u", *statuses), pod("v", runs("side", "e")), pod("w", runs("main", "f"), annotations={})]
    pods.append(pod("x", {"name": "main", "state": {"running": {}}}, {"name": "side"}))
    found = running_containers(pods, node(15360), Tolerance(percent=50))

    assert sorted((one.uid, one.name, one.id, dict(one.wanted)) for one in found) == [
        ("u", "first", "a", {0: 1536}), ("u", "main", "b", {0: 6144}), ("v", "side", "e", {0: 3072}),
    ]  # fmt: skip


TWICE = {"ALIYUN_COM_GPU_MEM_IDX": "", "scheduler.framework.gpushare.allocation": '{"0":{"0":3,"1":1},"1":{"1":2}}'}


@pytest.mark.parametrize(
    ("read", "state", "mib", "word"),
    [
        ([(0, 4096 * MIB)], "enforced", 4096, ""),
        ([(0, 4096 * MIB + 1)], "loose", 4096, ""),
        ([(0, 15000 * MIB)], "loose", 15000, "its limit is 15000 MiB"),
        ([(1, 4096 * MIB)], "loose", 4096, "guaranteed"),
        ([(0, 2048 * MIB)], "tight", 2048, "2048 MiB"),
        ([(0, 0)], "tight", 0, ""),
        ([None], "none", 0, "does not limit"),
        ([], "unknown", 0, ""),
    ],
)
def test_a_limit_is_judged_by_what_the_driver_answers(
    read: list[tuple[int, int] | None], state: str, mib: int, word: str
) -> None:
    """A lack of a limit is believed after ten seconds; a wrong limit immediately, as the hook sets it before the start."""
    one = pod("u", runs("main", "b"))
    containers = running_containers([one], node(15360), Tolerance())
    readings = {("b", 0): read[0]} if read else {}
    first = verify(LimitLook(), {"u": None}, containers, readings, 5.0)
    later = verify(first, {"u": None}, containers, readings, 15.0)

    is_early = state not in ("none", "unknown")
    limit = ContainerLimit("main", 0, state, mib)
    assert first.limits == {"u": (limit,) if is_early else ()}
    assert later.limits == {"u": (limit,)}
    assert sum(first.counts.values()) == is_early
    assert {name: count for name, count in later.counts.items() if count} == {state: 1}
    told = [news.limit for news in (*first.news, *later.news)]
    assert told == ([limit] if state in ("none", "loose", "tight") else [])
    if told:
        event, text = limit_texts((*first.news, *later.news)[0])
        assert ("4096 MiB of card 0" in text, word in text) == (True, True)
        assert (
            event == {"none": "GPUShareNotLimited", "loose": "GPUShareLimitLoose", "tight": "GPUShareLimitTight"}[state]
        )


def test_a_change_is_reported_once_through_restarts() -> None:
    """A plugin that starts reads its last look from the pod; a container that starts again keeps its state until it is judged."""
    one = pod("u", runs("main", "b"), runs("side", "d"), annotations=TWICE)
    cards, seen = node(15360, 15360), {("b", 0): (0, 3072 * MIB), ("b", 1): (0, 3072 * MIB), ("d", 1): None}
    look = verify(LimitLook(), {"u": None}, running_containers([one], cards, Tolerance()), seen, 0.0)
    assert [news.limit for news in look.news] == [ContainerLimit("main", 1, "loose", 3072)]
    look = verify(look, {"u": None}, running_containers([one], cards, Tolerance()), seen, 60.0)
    assert [news.limit.container for news in look.news] == ["side"]
    assert {name: count for name, count in look.counts.items() if count} == {"loose": 1, "none": 1}
    text = encode_limits(look.limits["u"])

    again = pod("u", runs("main", "B"), runs("side", "d"), annotations=TWICE)
    containers = running_containers([again], cards, Tolerance())
    fresh = verify(LimitLook(), {"u": text}, containers, {("d", 1): None}, 0.0)
    assert (fresh.limits, fresh.news, sum(fresh.counts.values())) == (look.limits, (), 0)
    # The pod was put on another card before it started.
    moved = running_containers([pod("u", runs("main", "b"))], cards, Tolerance())
    found = verify(fresh, {"u": text}, moved, {("b", 0): (0, 4096 * MIB)}, 1.0).limits["u"]
    assert set(found) == {ContainerLimit("main", 0, "enforced", 4096), ContainerLimit("side", 1, "none", 0)}
    assert verify(fresh, {}, [], {}, 2.0).limits == {}


def test_a_container_without_a_limit_is_news_once_its_node_can() -> None:
    """A container that was there before its node could limit is reported once, whatever it showed and however often it restarts."""
    text = encode_limits([ContainerLimit("main", 0, "none", 0)])
    look, reported = LimitLook(), list[int]()
    for number, unable in enumerate([(0,), (0,), (), (), ()]):
        containers = running_containers([pod("u", runs("main", "a" if number < 4 else "b"))], node(15360), Tolerance())
        look = verify(look, {"u": text}, containers, {("a", 0): None}, number * 60.0, unable)
        reported.append(len(look.news))

    assert reported == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("why", "counts", "expected"),
    [
        ({}, {}, ("True", "Enforced", "each container to its share")),
        ({}, {"enforced": 3, "tight": 1}, ("True", "Enforced", "")),
        ({}, {"enforced": 3, "unknown": 1}, ("Unknown", "NotVerified", "1 of 4")),
        ({}, {"enforced": 3, "none": 1, "loose": 2, "unknown": 1}, ("False", "SomeNotLimited", "3 of 7")),
        (
            {1: WhyNot("NoHook", "x"), 0: WhyNot("HookFails", "NVIDIA")},
            {"none": 1},
            ("False", "HookFails", "card 1: x; card 0: NVIDIA"),
        ),
        ({0: WhyNot("NoHook", "x"), 2: WhyNot("NoHook", "x")}, {}, ("False", "NoHook", "card 0, 2: x")),
        ({0: WhyNot("NotSupported", "y" * 9999)}, {}, ("False", "NotSupported", "card 0: yy")),
    ],
)
def test_condition_follows_the_worst(
    why: dict[int, WhyNot], counts: dict[str, int], expected: tuple[str, str, str]
) -> None:
    """A limit that was not read is not called enforced; a node that cannot limit has the reason, in a text of bounded length."""
    status, reason, message = limits_condition(why, dict.fromkeys(STATES, 0) | counts)
    assert (status, reason) == expected[:2]
    assert expected[2] in message
    assert len(message) <= 4096


HOOK = "error running hook #0: exit status 1, stderr: failed to set memory limits"


def fails(uid: str, at: str, error: str = "") -> KeptPod:
    waiting = {"reason": "RunContainerError", "message": f"error running {HOOK}: {error}"}
    status = {"name": "main", "state": {"waiting": waiting}, "containerID": at}
    return pod(uid, status)


def test_fuse_blows_for_a_failure_and_not_for_an_old_one() -> None:
    """It stays blown when the pod is gone, and is good under another driver until the hook fails again."""
    old = hook_failures([fails("u", "a"), pod("v", runs("main", "b"))])
    assert [(one.pod.metadata.uid, "delete the pod" in one.text, HOOK in one.text) for one in old] == [
        ("u", True, True)
    ]
    blown = Fuse().after(old, "615")
    assert (blown.blown, Fuse().after([], "615").blown) == ("615", None)
    assert blown.after([], "615").blown == "615"
    for failures in (old, hook_failures([fails("u", "b")])):
        newer = blown.after(failures, "620")
        assert newer.blown is None, "the failure may be from before the driver came"
    assert newer.after(hook_failures([fails("u", "c")]), "620").blown == "620"
    text = "has kept a container from starting under driver unknown; none is limited until there is another driver, or"
    assert hook_fails("").text == f"NVIDIA's hook apply-cuda-memory-limits {text} the device plugin is restarted"


@pytest.mark.parametrize(
    "error",
    [
        "failed to parse NVIDIA_GPU_MEMORY_LIMIT: strconv.ParseUint",
        "memory request (2 MiB) exceeds memory limit (1 MiB)",
        'failed to set memory limits for gpu \\"GPU-a\\": Invalid Argument',
    ],
)
def test_an_amount_of_an_author_does_not_blow_the_fuse(error: str) -> None:
    """An image with an amount that no driver takes fails alone, and the node limits other containers."""
    failures = hook_failures([fails("u", "a", error)])

    assert [one.is_of_value for one in failures] == [True]
    assert Fuse().after(failures, "615").blown is None
