"""The DaemonSet of a real cluster changes its program node by node, by ``components/on-delete``: pods of its nodes run on."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
import yaml

from clusters.api.api_client import JSON_PATCH, Object
from clusters.api.resources import DAEMON_SETS, NODES, PODS
from clusters.api.waiting import eventually
from clusters.kind.kind_cluster import KindCluster
from clusters.kind.workers import docker
from clusters.provider import NodeSpec
from e2e import spec
from e2e.builders import gpu_pod
from e2e.live_history import LiveHistory
from e2e.migration.test_there_and_back import lives_of, migrate, nodes_with
from e2e.observer import Observer, OwnCluster, observing
from e2e.site.node_cards import described

pytestmark = [
    pytest.mark.needs("takeover"),
    pytest.mark.real_kubelet_only("a stand-in runs no pods of a DaemonSet"),
    pytest.mark.thorough("a cluster of its own"),
    pytest.mark.minutes_on_kind(2, "the embedded cluster migrates in each run"),
]

ROOT: Final = Path(__file__).parents[2]
COMPONENT: Final = ROOT / "clusters" / "deploy" / "components" / "on-delete" / "kustomization.yaml"
SYSTEM: Final = "kube-system"
DAEMON_SET: Final = "gpushare-device-plugin-ds"
# Two cards of 14 units each.
NAMES: Final = ("m1", "m2")
UNITS: Final = 28
PODS_THAT_STAY: Final = 6
# Where the nodes have the stand-in's sources, and its pod has a file that it can write.
HARNESS: Final = "/opt/harness"
SCRATCH: Final = "/scratch"
# The image has no stand-in, and the stand-in knows no account of a pod: a kubeconfig is made for it. It runs on the simulated cards
# as our plugin does.
START: Final = """
import base64, os, sys, yaml
from pathlib import Path
account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
server = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
cluster = {"server": server, "certificate-authority-data": base64.b64encode((account / "ca.crt").read_bytes()).decode()}
one = {"name": "one"}
Path(os.environ["KUBECONFIG"]).write_text(yaml.safe_dump({
    "current-context": "one",
    "clusters": [one | {"cluster": cluster}],
    "users": [one | {"user": {"token": (account / "token").read_text()}}],
    "contexts": [one | {"context": {"cluster": "one", "user": "one"}}],
}))
sys.path.insert(0, "/opt/simulated-nvml/site")
from fake_nvml.main import main
plugin = [sys.executable, "-m", "e2e.reference.reference_plugin", "--dialect", "original", "-logtostderr"]
sys.exit(main(["exec", "--", *plugin]))
"""


def originals(template: Object) -> Object:
    """Our pod's template with the stand-in for the original's plugin in the place of ours; it has no probe."""
    changed = copy.deepcopy(template)
    pod, container = changed["spec"], changed["spec"]["containers"][0]
    container |= {"command": ["/opt/gpushare/bin/python", "-c", START], "args": []}
    del container["livenessProbe"]
    container["env"] += [
        {"name": "KUBECONFIG", "value": f"{SCRATCH}/kubeconfig"},
        {"name": "PYTHONPATH", "value": HARNESS},
    ]
    container["volumeMounts"] += [
        {"name": "harness", "mountPath": HARNESS, "readOnly": True},
        {"name": "scratch", "mountPath": SCRATCH},
    ]
    pod["volumes"] += [
        {"name": "harness", "hostPath": {"path": HARNESS, "type": "Directory"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    return changed


class Fleet:
    """The DaemonSet, and what it runs on each node."""

    def __init__(self, observer: Observer, cluster: KindCluster, ours: Object) -> None:
        self._observer, self._cluster, self._api = observer, cluster, cluster.api
        self.templates = {"ours": ours, "originals": originals(ours)}

    async def wants(self, whose: str) -> None:
        """Apply the DaemonSet with that program; nothing changes yet."""
        before = {node: await self.plugin(node) for node in NAMES}
        operation = {"op": "replace", "path": "/spec/template", "value": self.templates[whose]}
        wanted = await self._api.patch(DAEMON_SETS, DAEMON_SET, [operation], SYSTEM, content_type=JSON_PATCH)
        await eventually(
            lambda: self._api.get(DAEMON_SETS, DAEMON_SET, SYSTEM),
            lambda seen: (
                seen["status"]["observedGeneration"] >= wanted["metadata"]["generation"]
                and seen["status"].get("updatedNumberScheduled", 0) == 0
            ),
            "the controller has seen the change, and has made no pod of it",
        )
        assert {node: await self.plugin(node) for node in NAMES} == before

    async def change(self, node: str, whose: str) -> None:
        """Delete the plugin's pod on the node, as a person does, and wait until the node serves again."""
        old = await self.plugin(node)
        await self._api.delete(PODS, old["metadata"]["name"], SYSTEM)
        new = await eventually(
            partial(self.plugin, node), lambda seen: uid(seen) not in ("", uid(old)), f"another on {node}"
        )
        if whose == "ours":
            await eventually(
                partial(self._api.get, NODES, node),
                lambda seen: described(seen) is not None,
                f"{node} describes its cards",
            )
        else:
            log = partial(self._cluster.workers.container(node).read_logs, f"{SYSTEM}_{new['metadata']['name']}_")
            await eventually(
                partial(asyncio.to_thread, log),
                lambda text: "took the registration" in text,
                f"{node} has the original's plugin",
            )
            await self._api.patch(NODES, node, {"metadata": {"annotations": {spec.NODE_CARDS: None}}})
        await self._observer.shows(node, str(UNITS))

    async def plugin(self, node: str) -> Object:
        """The plugin's pod of a node that is not on its way out; its name and uid."""
        where = f"spec.nodeName={node}"
        pods = await self._api.list(PODS, SYSTEM, label_selector=f"name={DAEMON_SET}", field_selector=where)
        found = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return {"metadata": {key: found[0]["metadata"][key] for key in ("name", "uid")}} if found else {"metadata": {}}


def uid(pod: Object) -> str:
    return str(pod["metadata"].get("uid", ""))


@pytest_asyncio.fixture(loop_scope="session")
async def site(own: OwnCluster, docker_environment: dict[str, str]) -> AsyncIterator[KindCluster]:
    """Two nodes with our plugin, a DaemonSet that waits for deletions, and the stand-in's sources on each node."""
    async with own([NodeSpec(name, "t4x2", driver="418.87") for name in NAMES]) as cluster:
        assert isinstance(cluster, KindCluster)
        for name in NAMES:
            node = cluster.workers.container(name)
            await node.execute("mkdir", "-p", HARNESS)
            for folder in ("clusters", "e2e"):
                await docker(docker_environment, "cp", str(ROOT / folder), f"{node.container}:{HARNESS}/{folder}")
        (patch,) = yaml.safe_load(COMPONENT.read_text())["patches"]
        operations = yaml.safe_load(patch["patch"])
        await cluster.api.patch(DAEMON_SETS, DAEMON_SET, operations, SYSTEM, content_type=JSON_PATCH)
        yield cluster


async def test_a_daemon_set_goes_there_and_back_node_by_node(site: KindCluster) -> None:
    """From the original's plugin to ours and back: no container is restarted, no card changes or is over-booked."""
    ours = (await site.api.get(DAEMON_SETS, DAEMON_SET, SYSTEM))["spec"]["template"]
    async with observing(site, "stays") as observer:
        fleet = Fleet(observer, site, ours)
        await fleet.wants("originals")
        for node in NAMES:
            await fleet.change(node, "originals")
        history = LiveHistory(*(observer.cards(node) for node in NAMES))
        async with history.following(site.api):
            pods = [gpu_pod(f"stays-{one}", 2 + one % 3, node=NAMES[one % 2]) for one in range(PODS_THAT_STAY)]
            before = lives_of(await observer.run(*pods))
            for whose, flags, shown in (
                ("ours", (), "gpushare's plugin"),
                ("originals", ("--back",), "the original's plugin"),
            ):
                await fleet.wants(whose)
                for count, node in enumerate(NAMES, 1):
                    await fleet.change(node, whose)
                    assert nodes_with(shown, await migrate(site, *flags)) == {*NAMES[:count]}
                    added = f"beside-{whose}-on-{node}"
                    await observer.run(gpu_pod(added, 1, node=node))
                    await observer.check_right_cards(*before, added)
                assert lives_of(await observer.running(*before)) == before
    assert history.findings == []
