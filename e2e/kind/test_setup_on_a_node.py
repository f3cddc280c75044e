"""``gpushare-setup`` as a pod of kubeadm's control plane node, on which the real kubelet restarts the real kube-scheduler."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml
from msgspec.structs import replace

from clusters.api.api_client import Object
from clusters.api.resources import EVENTS, NODES, PODS, SERVICE_ACCOUNTS
from clusters.api.waiting import eventually
from clusters.kind.kind_cluster import KindCluster
from clusters.kind.program_images import build
from clusters.kind.workers import NodeContainer
from clusters.targets import Target
from e2e import spec
from e2e.builders import gpu_pod
from e2e.observer import OwnCluster

pytestmark = [
    pytest.mark.real_kubelet_only("it restarts kube-scheduler"),
    pytest.mark.thorough("a cluster with kube-scheduler as kubeadm installs it"),
]
ROOT: Final = Path(__file__).parents[2]
JOB: Final = ROOT / "clusters" / "deploy" / "samples" / "setup" / "job.yaml"
CONFIG: Final = "/etc/kubernetes/scheduler-gpushare-config.yaml"
MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
SYSTEM: Final = "kube-system"
# kube-scheduler ends at an authority that is none.
BROKEN: Final = (
    "--extender-ca-file=/etc/kubernetes/none.crt",
    "--extender-url=https://127.0.0.1:12345/gpushare-scheduler",
)
# Content, mode and owner of each file, and the folders.
_LIST: Final = "find /etc/kubernetes -printf '%p %m %u %g ' -type f -exec sha256sum {} \\; -o -printf '\\n' | sort"


@dataclasses.dataclass
class Ended:
    code: int
    output: str


class Node:
    """The control plane node, and the program as a Job on it."""

    def __init__(self, cluster: KindCluster, image: str) -> None:
        self.api = cluster.api
        self.name = cluster.workers.control_plane
        self._container: NodeContainer = cluster.workers.container(self.name)
        self._image = image

    async def begin(self, *arguments: str) -> str:
        """Create the shipped Job with this node, image and arguments; the name of its pod."""
        job: Object = yaml.safe_load(JOB.read_text())
        pod = job["spec"]["template"]["spec"]
        pod["nodeName"] = self.name
        pod["containers"][0] |= {"image": self._image, "args": list(arguments), "imagePullPolicy": "Never"}
        made = await self.api.request("POST", f"/apis/batch/v1/namespaces/{SYSTEM}/jobs", body=job)
        label = f"job-name={made['metadata']['name']}"
        pods = await eventually(lambda: self.api.list(PODS, SYSTEM, label_selector=label), bool, f"a pod of {label}")
        return str(pods[0]["metadata"]["name"])

    async def end(self, pod: str) -> Ended:
        status = await eventually(
            lambda: self.status(pod), lambda seen: "terminated" in _state(seen), f"{pod} has ended", seconds=240
        )
        lines = self._container.read_logs(f"{SYSTEM}_{pod}_").splitlines()
        output = "".join(f"{line.split(' ', 3)[3]}\n" for line in lines)
        return Ended(_state(status)["terminated"]["exitCode"], output)

    async def run(self, *arguments: str) -> Ended:
        return await self.end(await self.begin(*arguments))

    async def kill(self, pod: str) -> None:
        status = await self.status(pod)
        await self._container.signal(status["containerStatuses"][0]["containerID"], "KILL")

    async def status(self, pod: str) -> Object:
        found: Object = (await self.api.get(PODS, pod, SYSTEM))["status"]
        return found

    async def execute(self, command: str) -> str:
        return await self._container.execute("sh", "-c", command)

    async def files(self) -> str:
        return await self.execute(_LIST)

    async def scheduler(self) -> Object:
        return await self.api.get(PODS, f"kube-scheduler-{self.name}", SYSTEM)

    async def is_asked(self, *, expected: bool) -> None:
        """Does kube-scheduler ask the extender, which is not there? If not, the node takes the pod."""
        name = f"pod-{'asked' if expected else 'free'}"
        await eventually(
            lambda: self.api.list(SERVICE_ACCOUNTS, "default"), bool, "the namespace has the account of its pods"
        )
        await self.api.create(gpu_pod(name, 1), "default")
        if expected:
            await eventually(lambda: self._events(name), _asked_in_vain, "kube-scheduler asked the extender")
        else:
            await eventually(
                lambda: self.api.get(PODS, name, "default"), lambda pod: "nodeName" in pod["spec"], "it is bound"
            )
        await self.api.delete(PODS, name, "default", grace_seconds=0)

    async def _events(self, pod: str) -> list[str]:
        found = await self.api.list(EVENTS, "default", field_selector=f"involvedObject.name={pod}")
        return [event["message"] for event in found]


def _state(status: Object) -> dict[str, Any]:
    return next((one["state"] for one in status.get("containerStatuses", [])), {})


def _asked_in_vain(messages: list[str]) -> bool:
    return any(re.search(r"127\.0\.0\.1:12345/gpushare-scheduler/filter.*refused", text) for text in messages)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def node(own: OwnCluster, target: Target, docker_environment: dict[str, str]) -> AsyncIterator[Node]:
    """A control plane node as kubeadm leaves it, which offers card memory without a device plugin."""
    plain = replace(target, extender_or_none=None, device_plugin_or_none=None, scheduler="", roles=(), policies=())
    async with own([], plain) as cluster:
        assert isinstance(cluster, KindCluster)
        images = build.find(docker_environment)
        assert images is not None
        one = Node(cluster, images.extender)
        amount = {spec.RESOURCE_MEMORY: "10"}
        await cluster.api.patch(
            NODES, one.name, {"status": {"capacity": amount, "allocatable": amount}}, subresource="status"
        )
        await one.execute("echo no certificate > /etc/kubernetes/none.crt")
        yield one


async def test_apply_and_rollback_restart_the_scheduler(node: Node) -> None:
    """After ``apply`` kube-scheduler asks the extender; after ``rollback`` it does not, and each file is as it was."""
    before = await node.files()
    await node.is_asked(expected=False)

    shown = await node.run("plan")
    assert (shown.code, await node.files()) == (0, before)
    assert f"+    - --config={CONFIG}\n" in shown.output

    applied = await node.run("apply")
    assert applied.code == 0, applied.output
    assert applied.output.splitlines()[-1] == "done, and kube-scheduler is healthy; gpushare-setup rollback undoes it"
    assert (await node.run("check")) == Ended(0, "good: kube-scheduler asks gpushare's extender\n")
    await node.is_asked(expected=True)

    restored = await node.run("rollback")
    assert restored == Ended(0, f"removed {CONFIG}\nrestored {MANIFEST}\ndone, and kube-scheduler is healthy\n")
    assert await node.files() == before
    await node.is_asked(expected=False)


@pytest.mark.minutes_on_kind(2, "CI plays an apply that succeeds, and one that is cut off")
async def test_a_broken_configuration_is_rolled_back(node: Node) -> None:
    """kube-scheduler ends at its file: ``apply`` itself puts the files back, and waits until kube-scheduler is healthy."""
    before = await node.files()

    applied = await node.run("apply", "--timeout=40s", *BROKEN)

    assert applied.code == 1
    assert (
        "kube-scheduler was not healthy within 40 s; every file is as it was, and kube-scheduler is healthy again"
        in applied.output
    )
    assert await node.files() == before
    await node.is_asked(expected=False)


async def test_a_crash_amid_apply_is_repaired(node: Node) -> None:
    """The program is killed while kube-scheduler is down: ``check`` names it, and ``rollback`` runs without a scheduler."""
    before = await node.files()
    pod = await node.begin("apply", "--timeout=10m", *BROKEN)
    await eventually(
        lambda: node.execute(f"cat {MANIFEST}"), lambda text: f"--config={CONFIG}" in text, "the manifest is changed"
    )
    await node.kill(pod)
    assert (await node.end(pod)).code == 137

    found = await node.run("check")
    assert found.code == 3
    assert found.output.startswith("an apply began and has not ended\n  fix: run gpushare-setup rollback\n")
    assert (await node.run("rollback")).code == 0
    assert await node.files() == before
    await node.is_asked(expected=False)
