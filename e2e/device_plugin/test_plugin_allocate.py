"""The pod of a call, its card, and the container's variables: asked as a kubelet asks, container by container."""

from __future__ import annotations

import json
from typing import Any

import grpc
import grpc.aio
import pytest

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from e2e import spec
from e2e.builders import booking, gpu_container, gpu_pod
from e2e.checkers.plugin_answers import fit_preferences
from e2e.device_plugin.plugin_under_test import OLD_KUBELET, PluginUnderTest

MEMORY = spec.RESOURCE_MEMORY


async def take(stage: PluginUnderTest, free: list[str], size: int) -> tuple[list[str], dict[str, str]]:
    """A container's turn: which ids, then Allocate. The ids leave ``free``; the variables."""
    ids = await stage.kubelet.prefer(MEMORY, free, size)
    stage.check_calls(fit_preferences)
    (answer,) = await stage.kubelet.allocate(MEMORY, ids)
    for one in ids:
        free.remove(one)
    return ids, dict(answer.envs)


async def given(stage: PluginUnderTest, ids: list[str]) -> dict[str, str] | None:
    """The variables of a container with these ids, or None if it gets no card: by an error, or by an index that is none."""
    try:
        (answer,) = await stage.kubelet.allocate(MEMORY, ids)
    except grpc.aio.AioRpcError:
        return None
    told = dict(answer.envs)
    return told if told.get(spec.ENV_INDEX, "-1").isdigit() else None


async def start(stage: PluginUnderTest, pod: str, container: str, ids: list[str]) -> None:
    """The kubelet has recorded the container of the ids, and asks before it starts."""
    stage.kubelet.hold(stage.namespace, pod, container, ids)
    await stage.kubelet.pre_start(MEMORY, ids)


def uuid(stage: PluginUnderTest, card: int) -> str:
    """The UUID of a card."""
    return str(stage.cards.cards()[card]["uuid"])


@pytest.mark.promise("DP-011", "DP-019")
async def test_one_container(stage: PluginUnderTest) -> None:
    """The five variables of the contract; the pod is marked when its container may start."""
    free = await stage.free_ids()
    await stage.book("p", 3, card=1)
    ids, told = await take(stage, free, 3)

    stage.check_calls()
    assert told.get(spec.ENV_DEVICE_UNITS) == "14"
    # A plugin that asks a kubelet to be asked before each start knows the owner only then.
    if stage.claims("pod-resources"):
        assert (await stage.pod("p"))["metadata"]["annotations"][spec.POD_ASSIGNED] == "false"
    await start(stage, "p", "c0", ids)
    await stage.check_right_card("p", told)


@pytest.mark.promise("DP-012")
@pytest.mark.promise("D02")
async def test_two_containers_of_one_pod(stage: PluginUnderTest) -> None:
    """Defect D02: two calls, one card, each container its own amount; the pod of 3 beside it is another's."""
    free = await stage.free_ids()
    await stage.book("two", 1, 2, card=1)
    await stage.book("three", 3, card=0, position=1)
    told = [(await take(stage, free, size))[1] for size in (1, 2, 3)]

    stage.check_calls()
    assert [one[spec.ENV_INDEX] for one in told] == ["1", "1", "0"]
    assert [one[spec.ENV_CONTAINER_UNITS] for one in told] == ["1", "2", "3"]
    assert [one[spec.ENV_POD_UNITS] for one in told] == ["3", "3", "3"]


@pytest.mark.needs("kubelet-book")
@pytest.mark.promise("DP-012")
async def test_next_kubelet_need_not_finish_a_half_done_pod(stage: PluginUnderTest) -> None:
    """The pod that it left half done has no room for its rest, and blocks no other pod's card."""
    free = await stage.free_ids()
    await stage.book("full", 6, card=0)
    await stage.book("beside", 7, card=1, position=1)
    await stage.book("half", 2, 7, card=0, position=2)
    await stage.book("next", 7, card=1, position=3)
    turns = (("full", 6), ("beside", 7), ("half", 2))
    written = [(name, (await take(stage, free, size))[0]) for name, size in turns]
    await _write_book(stage, written)
    before = sum(1 for one in stage.kubelet.registrations if one.resource == MEMORY)
    await stage.kubelet.restart()
    await stage.registered(after=before)
    await stage.logged("registering again")
    _, told = await take(stage, free, 7)

    assert told[spec.ENV_INDEX] == "1"


@pytest.mark.promise("D21", "DP-013")
async def test_an_init_container_passes_its_ids_on(stage: PluginUnderTest) -> None:
    """The kubelet offers an init container's ids to the next one, which stays on their card."""
    free = await stage.free_ids()
    pod = gpu_pod("p", 3, bound_to=stage.node, annotations=booking(3, card=1))
    pod["spec"]["initContainers"] = [gpu_container("init", 2)]
    await stage.create(pod)
    first, told = await take(stage, free, 2)
    assert told[spec.ENV_INDEX] == "1"
    second = await stage.kubelet.prefer(MEMORY, [*first, *free], 3, must=first)
    (answer,) = await stage.kubelet.allocate(MEMORY, second)
    stage.check_calls()
    assert [answer.envs[name] for name in (spec.ENV_INDEX, spec.ENV_POD_UNITS)] == ["1", "3"]
    # PodResources lists no ordinary init container, but the one that has its ids now.
    stage.kubelet.hold(stage.namespace, "p", "c0", second)
    await stage.kubelet.pre_start(MEMORY, first)
    await stage.kubelet.pre_start(MEMORY, second)


async def _write_book(stage: PluginUnderTest, written: list[tuple[str, list[str]]]) -> None:
    """The kubelet's file: the first containers of these pods have these ids."""
    entries = [
        {
            "PodUID": (await stage.pod(name))["metadata"]["uid"],
            "ContainerName": "c0",
            "ResourceName": MEMORY,
            "DeviceIDs": {"-1": ids},
            "AllocResp": None,
        }
        for name, ids in written
    ]
    book = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
    (stage.cards.folder / "device-plugins" / "kubelet_internal_checkpoint").write_text(json.dumps(book))


@pytest.mark.promise("DP-015", "PR-005")
@pytest.mark.promise("D01")
async def test_two_swapped_equal_pods_get_the_card_of_their_ids(stage: PluginUnderTest) -> None:
    """Defect D01: the guess was wrong; the kubelet's records show it, and the annotations change places first."""
    free = await stage.free_ids()
    await stage.book("a", 9, card=0)
    await stage.book("b", 9, card=1, position=1)
    (first, told_b), (second, told_a) = await take(stage, free, 9), await take(stage, free, 9)
    # The kubelet admits the one first that was bound last.
    stage.kubelet.hold(stage.namespace, "b", "c0", first)
    stage.kubelet.hold(stage.namespace, "a", "c0", second)
    await until_it_may_start(stage, first)
    await until_it_may_start(stage, second)

    for name, told in (("a", told_a), ("b", told_b)):
        noted = (await stage.pod(name))["metadata"]["annotations"]
        assert noted[spec.POD_INDEX] == told[spec.ENV_INDEX]
        assert spec.POD_REPAIR not in noted
    assert told_b[spec.ENV_INDEX] != told_a[spec.ENV_INDEX]


async def until_it_may_start(stage: PluginUnderTest, ids: list[str]) -> None:
    """As a kubelet: an error only means to ask again."""
    for _ in range(20):
        try:
            await stage.kubelet.pre_start(MEMORY, ids)
            return
        except grpc.aio.AioRpcError as error:
            last = error
    raise last


async def test_a_wrong_guess_is_held_where_repair_is_off(stage: PluginUnderTest) -> None:
    """Option ``repair=hold``: the container does not start on another card than its annotation's, and the pod gets an event."""
    free = await stage.free_ids(repair="hold")
    await stage.book("a", 9, card=0)
    await stage.book("b", 9, card=1, position=1)
    (first, _), _ = await take(stage, free, 9), await take(stage, free, 9)
    stage.kubelet.hold(stage.namespace, "b", "c0", first)
    with pytest.raises(grpc.aio.AioRpcError, match="annotation"):
        await stage.kubelet.pre_start(MEMORY, first)

    assert (await stage.pod("b"))["metadata"]["annotations"][spec.POD_INDEX] == "1"
    assert any("annotation" in message for _, message in await stage.events("b"))


@pytest.mark.promise("D03", "DP-016")
async def test_a_refused_container_gets_a_reason(stage: PluginUnderTest) -> None:
    """Defect D03: for ids that no pod waits for, some text in whatever language, and never a success."""
    free = await stage.free_ids()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stage.kubelet.allocate(MEMORY, free[:3])

    assert str(refused.value.details()).strip()


@pytest.mark.promise("D04", "DP-017")
@pytest.mark.parametrize(
    "kind", ["none", pytest.param("unknown", marks=pytest.mark.needs("pod-resources")), "more than a card"]
)
async def test_ids_that_make_no_sense(stage: PluginUnderTest, kind: str) -> None:
    """No card is given, and the plugin goes on."""
    free = await stage.free_ids(box="t4x1")
    await stage.book("p", 2, card=0)
    ids = {"none": [], "unknown": ["gs-no-1", "gs-no-2"], "more than a card": [*free, "gs-no-1"]}[kind]
    assert await given(stage, ids) is None

    assert (await take(stage, free, 2))[1][spec.ENV_INDEX] == "0"


@pytest.mark.promise("DP-018")
async def test_a_request_of_81920_ids(stage: PluginUnderTest) -> None:
    """A whole card of 80 GiB in MiB, under an old kubelet, with the ids' guard overridden; taken and answered."""
    await stage.open("a100x1", kubelet=OLD_KUBELET)
    registration = await stage.plug(memory_unit="MiB", **stage.spelt(max_ids="200000"))
    ids = registration.ids()
    await stage.book("p", len(ids), card=0)
    (answer,) = await stage.kubelet.allocate(MEMORY, ids)

    assert len(ids) >= 81_000
    assert answer.envs[spec.ENV_CONTAINER_UNITS] == str(len(ids))


@pytest.mark.promise("DP-019")
@pytest.mark.parametrize(
    ("options", "visible"),
    [
        ({"device_id_strategy": "index"}, "index"),
        ({"device_id_strategy": "uuid"}, "uuid"),
        ({"device_list_strategy": "cdi-cri"}, "cdi"),
        ({"device_list_strategy": "cdi-annotations", "device_id_strategy": "index"}, "annotation"),
        ({"device_list_strategy": "volume-mounts"}, "mount"),
    ],
    ids=["index", "uuid", "cdi-cri", "cdi-annotations", "volume-mounts"],
)
@pytest.mark.promise("D27")
async def test_other_ways_to_name_a_card(stage: PluginUnderTest, options: dict[str, str], visible: str) -> None:
    """Defect D27: by NVML's index, by UUID, as a CDI device in two ways, as a mount; the other variables are the contract's."""
    free = await stage.free_ids(**options)
    await stage.book("p", 3, card=1)
    ids = await stage.kubelet.prefer(MEMORY, free, 3)
    (answer,) = await stage.kubelet.allocate(MEMORY, ids)

    assert answer.envs[spec.ENV_INDEX] == "1"
    assert answer.envs[spec.ENV_CONTAINER_UNITS] == "3"
    if visible in ("index", "uuid"):
        assert answer.envs[spec.ENV_VISIBLE] == ("1" if visible == "index" else uuid(stage, 1))
    elif visible == "cdi":
        assert [one.name for one in answer.cdi_devices] == [f"nvidia.com/gpu={uuid(stage, 1)}"]
    elif visible == "annotation":
        assert list(answer.annotations.values()) == ["nvidia.com/gpu=1"]
    else:
        assert [one.container_path for one in answer.mounts] == [f"/var/run/nvidia-container-devices/{uuid(stage, 1)}"]
        assert answer.envs[spec.ENV_VISIBLE] == "/var/run/nvidia-container-devices"


@pytest.mark.promise("DP-023")
async def test_a_status_that_would_be_too_large(stage: PluginUnderTest) -> None:
    """From 1.36 on a pod's status names each id; a container with more than fit is refused."""
    await stage.open("a100x1")
    free = (await stage.plug(memory_unit="MiB", **stage.spelt(max_ids="200000"))).ids()
    await stage.book("p", 60_000, card=0)
    with pytest.raises(grpc.aio.AioRpcError):
        await take(stage, free, 60_000)


@pytest.mark.needs("repair")
@pytest.mark.parametrize(
    "changes",
    [
        {spec.POD_INDEX: "1", "gpushare.aliyun.com/card-model": "T4"},
        {spec.POD_ALLOCATION: '{"0":{"0":14,"1":14}}'},
        {spec.POD_INDEX: None, spec.POD_ASSIGNED: None},
    ],
    ids=["another card and a wish", "both cards, beyond its request", "nothing"],
)
async def test_a_running_pod_is_written_back(stage: PluginUnderTest, changes: dict[str, Any]) -> None:
    """The plugin writes a running pod back as it was bound, with an event on it.

    A pod of another tenant gets the card that the running pod claimed.
    """
    free = await stage.free_ids()
    await stage.book("a", 2, card=0)
    ids, _ = await take(stage, free, 2)
    await start(stage, "a", "c0", ids)
    bound = await written(stage)
    await stage.api.patch(PODS, "a", {"metadata": {"annotations": changes}}, stage.namespace)
    await eventually(lambda: written(stage), lambda now: now == bound, "what was bound is written again")
    await stage.book("other", 14, card=1, position=1)
    _, told = await take(stage, free, 14)

    assert told[spec.ENV_INDEX] == "1"
    await eventually(
        lambda: stage.events("a"),
        lambda found: "GPUShareAnnotationsChanged" in [reason for reason, _ in found],
        "the change is reported",
    )


async def written(stage: PluginUnderTest) -> dict[str, str]:
    """The annotations that our programs wrote on the pod."""
    annotations = (await stage.pod("a"))["metadata"]["annotations"]
    return {
        name: text
        for name, text in annotations.items()
        if name.startswith("ALIYUN_COM_GPU_MEM_") or name == spec.POD_ALLOCATION
    }
