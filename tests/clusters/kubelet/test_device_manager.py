"""How the simulated kubelet gives devices to containers."""

from __future__ import annotations

import asyncio
import json

import pytest

from clusters.kubelet import plugin_calls
from clusters.kubelet.device_manager import PreStartError
from clusters.kubelet.kubelet_devices import AllocationError, Count
from clusters.kubelet.plugin_calls import PluginCall
from clusters.kubelet.timings import Timings
from tests.clusters.kubelet.pods_of_tests import container, pod
from tests.clusters.kubelet.small_plugin import RESOURCE, Plugin, ids
from tests.servers import until


async def admit(node, *pods, active=None) -> None:
    """One after the other, as new pods."""
    for one in pods:
        await node.devices.allocate(one, (), lambda: active or {p["metadata"]["uid"] for p in pods})


def held(node, uid, name) -> set[str]:
    return {i for a in node.devices.book.allocations_of(uid, name) for i in a.ids}


@pytest.mark.promise("G3-07")
async def test_one_allocate_for_each_container_in_order(node) -> None:
    """Init containers first, then containers; each call names exactly what the container asked."""
    plugin = await node.plug(Plugin(ids(range(20))))

    await admit(node, pod("p", container("a", 2), container("none"), container("b", 3), inits=(container("i", 4),)))

    assert [len(one) for one in plugin.asked("allocate")] == [4, 2, 3]


@pytest.mark.promise("G3-06")
async def test_the_kubelet_takes_the_ids_that_a_plugin_prefers(node) -> None:
    """The kubelet allocates the ids that a plugin prefers, and asks for its preference even if nothing is left to choose."""
    plugin = await node.plug(Plugin(ids("abcdef"), prefers=True))
    plugin.prefer = lambda available, must, size: sorted(available)[-size:]

    await admit(node, pod("p", container("x", 2)), pod("q", container("x", 4)))

    assert {*map(frozenset, plugin.asked("allocate"))} == {frozenset("ef"), frozenset("abcd")}
    assert plugin.asked("prefer") == [("size=2",), ("size=4",)]


async def test_a_preference_that_makes_no_sense_is_filled_up_at_random(node) -> None:
    """Ids that exist are taken, the others replaced."""
    plugin = await node.plug(Plugin(ids("abcdef"), prefers=True))
    plugin.prefer = lambda available, must, size: ["a", "nonsense"]

    await admit(node, pod("p", container("x", 3)))

    (chosen,) = plugin.asked("allocate")
    assert chosen[0] == "a"
    assert len(set(chosen)) == 3
    assert set(chosen) <= set("abcdef")


async def test_a_preference_that_fails_fails_the_pod(node) -> None:
    """The kubelet's text has the plugin's error."""
    plugin = await node.plug(Plugin(ids("abc"), prefers=True))
    plugin.prefer_error = "no idea"

    with pytest.raises(AllocationError, match="GetPreferredAllocation rpc failed with err: rpc error: code = Internal"):
        await admit(node, pod("p", container("x", 1)))

    assert plugin.asked("allocate") == []


@pytest.mark.promise("G3-08")
async def test_ids_of_an_ended_init_container_are_used_again(node) -> None:
    """A pod of init(2) and app(3) needs three ids, the plugin is still asked twice, reused ids are a must."""
    plugin = await node.plug(Plugin(ids("abc"), prefers=True))

    await admit(node, pod("p", container("app", 3), inits=(container("init", 2),)))

    init, app = map(set, plugin.asked("allocate"))
    assert init < app == set("abc")
    (_, asked) = plugin.asked("prefer")
    assert set(asked) == init | {"size=3"}


@pytest.mark.promise("G3-08")
async def test_a_sidecar_keeps_its_ids(node) -> None:
    """An init container before it passes its ids on to the sidecar; the app gets others."""
    await node.plug(Plugin(ids("abcd")))
    inits = (container("init", 1), container("side", 1, restartPolicy="Always"))

    await admit(node, pod("p", container("app", 1), inits=inits))

    assert held(node, "uid-p", "side") == held(node, "uid-p", "init")
    assert held(node, "uid-p", "app").isdisjoint(held(node, "uid-p", "side"))


async def test_a_container_waits_for_its_plugin_to_come_back(node) -> None:
    """A start without the plugin is an error that is tried again."""
    plugin = await node.plug(Plugin(ids("abc"), pre_start=True))
    await admit(node, pod("p", container("x", 1)))
    await plugin.stop()
    await until(lambda: node.devices.book.counts()[RESOURCE].allocatable == 0)

    with pytest.raises(PreStartError, match="has been stopped"):
        await node.devices.pre_start("uid-p", "x")


@pytest.mark.promise("G3-09")
async def test_after_a_restart_the_answer_is_remembered(node) -> None:
    """Ids and variables come from the checkpoint; a pod that was not admitted before the restart fails."""
    plugin = await node.plug(Plugin(ids("abc")))
    await admit(node, pod("p", container("x", 2)))
    before = held(node, "uid-p", "x"), node.devices.environment("uid-p", "x")

    await node.stop()
    assert await node.start()

    assert (held(node, "uid-p", "x"), node.devices.environment("uid-p", "x")) == before
    assert before[1]["NVIDIA_VISIBLE_DEVICES"] == "0"
    await node.devices.allocate(pod("p", container("x", 2)), {"x"}, lambda: {"uid-p"})
    with pytest.raises(AllocationError, match="no healthy devices present"):
        await admit(node, pod("q", container("x", 1)), active={"uid-p", "uid-q"})
    assert len(plugin.asked("allocate")) == 1


async def test_a_broken_checkpoint_is_left_aside(node) -> None:
    """The kubelet starts without devices."""
    await node.stop()
    (node.folder / "kubelet_internal_checkpoint").write_text("{")

    assert await node.start()
    assert node.devices.book.counts() == {}


async def test_a_resource_that_no_plugin_owns_is_not_allocated(node) -> None:
    """The pod is admitted without it."""
    await node.plug(Plugin(ids("abc")))

    await admit(node, pod("p", {"name": "x", "image": "i", "resources": {"limits": {"other.com/thing": "1"}}}))

    assert node.devices.book.allocations() == ()


async def test_the_end_of_a_plugin_fails_the_allocate_under_way(node) -> None:
    """A plugin's end cancels the Allocate under way, and the next pod fails because there is no healthy device."""
    plugin = await node.plug(Plugin(ids("abc")))
    plugin.allocate_gate = asyncio.Event()
    admission = asyncio.create_task(admit(node, pod("p", container("x", 1))))
    await until(lambda: plugin.asked("allocate"), "the question")
    plugin.end_stream()

    with pytest.raises(AllocationError, match="rpc error: code = Canceled"):
        await admission
    with pytest.raises(AllocationError, match="no healthy devices present"):
        await admit(node, pod("q", container("x", 1)))
    plugin.allocate_gate.set()


async def test_a_list_inside_allocate_can_make_two_pods_share_a_device(node) -> None:
    """Two pods share a device if a pod's devices are freed during Allocate, as by a plugin that calls List there."""
    plugin = await node.plug(Plugin(ids("abc")))
    await admit(node, pod("ended", container("x", 1)))
    plugin.on_allocate = lambda: node.devices.book.release_all_but({"uid-p"})
    await admit(node, pod("p", container("x", 3 - 1)), active={"uid-ended", "uid-p"})
    plugin.on_allocate = lambda: None
    await admit(node, pod("q", container("x", 3)), active={"uid-p", "uid-q"})

    assert held(node, "uid-p", "x") < held(node, "uid-q", "x")


@pytest.mark.parametrize("timings", [Timings().scaled(0.001)], ids=["scaled"])
async def test_resource_has_no_plugin_after_the_grace_period(node) -> None:
    """A resource whose plugin stays away for the grace period starts no container, and no plugin is asked for it."""
    plugin = await node.plug(Plugin(ids("abc"), pre_start=True))
    await admit(node, pod("p", container("x", 1)))
    await plugin.stop()
    await until(lambda: node.devices.book.resources() == (), "the end of the grace period")

    with pytest.raises(PreStartError, match=f"endpoint not found in cache for a registered resource: {RESOURCE}"):
        await node.devices.pre_start("uid-p", "x")
    with pytest.raises(AllocationError, match=f"cannot allocate unregistered device {RESOURCE}"):
        await admit(node, pod("q", container("x", 1)), active={"uid-p", "uid-q"})
    node.devices.book.release_all_but({"uid-q"})
    await admit(node, pod("q", container("x", 1)))
    registered = json.loads((node.folder / "kubelet_internal_checkpoint").read_text())["Data"]["RegisteredDevices"]
    assert registered == {}
    assert len(plugin.asked("allocate")) == 1


@pytest.mark.parametrize("timings", [Timings().scaled(0.001)], ids=["scaled"])
async def test_plugin_that_stays_away_after_a_restart_is_given_up(node) -> None:
    """A resource in the checkpoint is given up if its plugin stays away for the grace period after a restart."""
    plugin = await node.plug(Plugin(ids("abc")))
    await plugin.stop()
    await node.stop()
    await node.start()

    await until(lambda: node.devices.book.resources() == (), "the end of the grace period")
    assert node.devices.book.counts() == {RESOURCE: Count(0, 0)}


async def test_only_a_container_that_runs_is_let_in_without_its_plugin(node) -> None:
    """A pod is admitted without its plugin after a restart only if all its containers with devices still run."""
    await node.plug(Plugin(ids("abc")))
    running = pod("p", container("x", 1), inits=(container("init", 1),))
    await admit(node, running)
    await node.stop()
    await node.start()

    with pytest.raises(AllocationError, match="no healthy devices present"):
        await node.devices.allocate(running, {"x"}, lambda: None)
    await node.devices.allocate(running, {"x", "init"}, lambda: None)


async def test_while_not_all_pods_are_known_nothing_is_freed(node) -> None:
    """An allocation before all pods are known frees no device of another pod."""
    await node.plug(Plugin(ids("ab")))
    await admit(node, pod("p", container("x", 1)))
    await node.devices.allocate(pod("q", container("x", 1)), (), lambda: None)

    assert held(node, "uid-p", "x") | held(node, "uid-q", "x") == set("ab")


async def test_a_request_that_changed_is_refused(node) -> None:
    """A container whose request has changed is refused with the text of a real kubelet."""
    await node.plug(Plugin(ids("abc")))
    await admit(node, pod("p", container("x", 1)))

    text = f'pod "uid-p" container "x" changed request for resource "{RESOURCE}" from 1 to 2'
    with pytest.raises(AllocationError, match=text):
        await admit(node, pod("p", container("x", 2)))


async def test_pod_in_admission_keeps_its_first_containers_devices(node) -> None:
    """A pod in admission keeps its devices even if it no longer counts as active (Kubernetes: pendingAdmissionPod)."""
    plugin = await node.plug(Plugin(ids("abcd")))
    # A call of PodResources takes back what ended pods had.
    plugin.on_allocate = lambda: node.devices.release_all_but(set())
    await node.devices.allocate(pod("p", container("x", 1), container("y", 1), container("z", 1)), (), lambda: set())

    assert len({one for name in "xyz" for one in held(node, "uid-p", name)}) == 3
    node.devices.release_all_but(set())
    assert not held(node, "uid-p", "x")


async def test_a_plugin_that_does_not_want_to_be_asked_is_not(node) -> None:
    """PreStartContainer is called only if the options ask for it."""
    plugin = await node.plug(Plugin(ids("abc")))
    await admit(node, pod("p", container("x", 1)))

    await node.devices.pre_start("uid-p", "x")

    assert plugin.asked("pre_start") == []


async def test_calls_between_kubelet_and_plugin_are_noted(node, monkeypatch) -> None:
    """Each with its question, its answer and the pod; a refusal and the end of the lists have no answer."""
    calls: list[PluginCall] = []
    monkeypatch.setattr(plugin_calls, "LISTENERS", [calls.append])
    plugin = await node.plug(Plugin(ids("abc"), prefers=True, pre_start=True))
    await admit(node, pod("p", container("x", 2)))
    await node.devices.pre_start("uid-p", "x")
    plugin.allocate_error = "no idea"
    with pytest.raises(AllocationError):
        await admit(node, pod("q", container("x", 1)), active={"uid-p", "uid-q"})
    changes = node.changes
    plugin.end_stream()
    await until(lambda: node.changes > changes, "the end of the lists")

    assert [(one.method, one.pod, one.answer is not None) for one in calls] == [
        ("Register", "", False),
        ("GetDevicePluginOptions", "", True),
        ("ListAndWatch", "", True),
        ("GetPreferredAllocation", "default/p", True),
        ("Allocate", "default/p", True),
        ("PreStartContainer", "", True),
        ("GetPreferredAllocation", "default/q", True),
        ("Allocate", "default/q", False),
        ("ListAndWatch", "", False),
    ]
    assert {(one.resource, one.socket) for one in calls} == {(RESOURCE, node.folder / "plugin.sock")}
    assert [one.at for one in calls] == sorted(one.at for one in calls)
