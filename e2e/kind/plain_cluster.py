"""A kind cluster without our programs, as the pages of docs/install find a site: its commands, its nodes, its kube-scheduler.

No registry is there. The images of this checkout get in each node the names that the pages give them below ``registry.example``,
and the plugin's is the one of simulated cards, under its own name. Nothing else differs from the manifests and the chart.
"""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from clusters.deploy.render import BASE, FOLDER
from clusters.kind.kind_cluster import KindCluster
from clusters.kind.kind_config import CARDS, SCHEDULER_CONFIG
from clusters.kind.program_images.build import ProgramImages
from clusters.kind.workers import docker
from clusters.processes.commands import output_of
from clusters.provider import NodeSpec
from clusters.simulated_node import new_cards
from e2e.site.picture import condition

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "docs" / "install"
GPU_NODE: Final = "gpu-1"
REGISTRY: Final = "registry.example/gpushare"
_PLUGIN: Final = f"{REGISTRY}/device-plugin"
SIMULATED: Final = f"{_PLUGIN}-simulated"
_MANIFEST: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
_BEFORE: Final = "/root/kube-scheduler.yaml.before"
_FLAG: Final = f"--config={SCHEDULER_CONFIG}"
# A kubelet looks at its static pods every twenty seconds, and kube-scheduler's probe begins ten seconds after its start.
_RESTARTED_SECONDS: Final = 120.0
# Kubernetes itself makes and removes these on any cluster.
_PASSING: Final = ("events", "componentstatuses", "pods")


def blocks(page: str, language: str = "yaml") -> list[str]:
    """The blocks of a page in this language, in order, as a reader copies them."""
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(text) for kind, text in found if kind == language]


@dataclass(frozen=True, slots=True)
class PlainCluster:
    """The cluster, a folder beside its checkout, and the variables of a shell on it."""

    cluster: KindCluster
    version: str
    """Of its programs."""
    folder: Path
    variables: Mapping[str, str]
    docker: Mapping[str, str]

    @property
    def control_plane(self) -> str:
        return self.cluster.workers.control_plane

    async def run(self, command: str, *more: str | Path) -> str:
        """Run a command of a page; NODE is the node with cards, CONTROL that of the control plane. Raises ClusterError."""
        command = re.sub(r"\bNODE\b", GPU_NODE, command).replace("CONTROL", self.control_plane)
        return await output_of([*shlex.split(command), *map(str, more)], {**os.environ, **self.variables})

    async def load(self, images: ProgramImages) -> None:
        """Name the images in each node as a registry would have them."""
        names = {images.extender: f"{REGISTRY}/extender", images.device_plugin_simulated: SIMULATED}
        for node in (self.control_plane, GPU_NODE):
            for image, name in names.items():
                command = ("ctr", "--namespace=k8s.io", "images", "tag", f"docker.io/{image}", f"{name}:0.2.0")
                await self.cluster.workers.container(node).execute(*command)

    def kustomization(self, page: str, form: str) -> Path:
        """The folder of the site beside the checkout, with a page's first kustomization in it, for this form of the manifests."""
        text = blocks(page)[0].replace(_PLUGIN, SIMULATED)
        text = re.sub(r"newTag: v[\d.]+", f"newTag: {self.version}", text.replace("deploy/base", f"deploy/{form}"))
        folder = self.folder / "site"
        if not folder.exists():
            folder.mkdir()
            (self.folder / "gpushare").symlink_to(ROOT)
        (folder / "kustomization.yaml").write_text(text)
        return folder

    async def give_cards(self, node: str, box: str) -> None:
        """Put simulated cards into a node that came without."""
        made = self.folder / "cards"
        made.mkdir()
        new_cards(made / "state", NodeSpec(node, box)).close()
        container = self.cluster.workers.container(node).container
        await docker(self.docker, "cp", f"{made}/.", f"{container}:{CARDS}")

    async def forget_cards(self, node: str) -> None:
        """Run the last commands of docs/install/index.md, for a node that shares no longer."""
        *of_the_cluster, of_the_node = blocks("index.md", "sh")[-1].replace("\\\n", "").splitlines()
        for command in of_the_cluster:
            await self.run(command.replace("NODE", node))
        container = self.cluster.workers.container(node.replace("CONTROL", self.control_plane))
        await container.execute(*shlex.split(of_the_node))

    async def configure_scheduler(self) -> None:
        """The edit by hand of docs/install/kubeadm.md, unless it is done, and the restart that the kubelet makes of it."""
        node = self.cluster.workers.container(self.control_plane)
        manifest = yaml.safe_load(await node.execute("cat", _MANIFEST))
        if _FLAG in manifest["spec"]["containers"][0]["command"]:
            return
        await node.execute("cp", _MANIFEST, _BEFORE)
        edited = self.folder / "kube-scheduler.yaml"
        edited.write_text(yaml.safe_dump(with_part(manifest, yaml.safe_load(blocks("kubeadm.md")[0]))))
        copies = {BASE / "scheduler-config.yaml": SCHEDULER_CONFIG, edited: "/root/kube-scheduler.yaml"}
        for source, target in copies.items():
            await docker(self.docker, "cp", str(source), f"{node.container}:{target}")
        await node.execute("mv", "/root/kube-scheduler.yaml", _MANIFEST)
        await self._scheduler_is_ready(has_flag=True)

    async def put_back_scheduler(self) -> None:
        """The way back of that page: the copy in the place of the manifest."""
        await self.cluster.workers.container(self.control_plane).execute("mv", _BEFORE, _MANIFEST)
        await self._scheduler_is_ready(has_flag=False)

    async def _scheduler_is_ready(self, *, has_flag: bool) -> None:
        async def schedulers() -> list[tuple[bool, bool]]:
            pods = await self.cluster.api.list(PODS, "kube-system", label_selector="component=kube-scheduler")
            return [
                (_FLAG in pod["spec"]["containers"][0]["command"], condition(pod, "Ready") == "True") for pod in pods
            ]

        what = f"kube-scheduler is ready with{'' if has_flag else 'out'} its flag"
        await eventually(schedulers, lambda seen: seen == [(has_flag, True)], what, seconds=_RESTARTED_SECONDS)

    async def objects(self) -> set[str]:
        """The names of all objects, less events and pods of others."""
        kinds = (await self.run("kubectl api-resources --verbs=list --output=name")).split()
        listed = ",".join(kind for kind in kinds if not kind.startswith(_PASSING))
        named = await self.run("kubectl get --all-namespaces --output=name", listed)
        ours = await self.run("kubectl get pods --all-namespaces --output=name --selector=app=gpushare")
        # Those of kubelets, each of which makes its own a while after its start.
        leases = {f"lease.coordination.k8s.io/{node}" for node in (self.control_plane, GPU_NODE)}
        return {*named.split(), *ours.split()} - leases


def with_part(manifest: dict[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with what a page adds to it: lists grow, except with the name of the program, which both have."""
    spec, more = manifest["spec"], part["spec"]
    (container,), (addition,) = spec["containers"], more["containers"]
    container["command"] += addition["command"][1:]
    container["volumeMounts"] += addition["volumeMounts"]
    spec["volumes"] += more["volumes"]
    return manifest


CHART: Final = FOLDER / "chart"
SAMPLE: Final = FOLDER / "samples" / "binpack-1-statefulset.yaml"
PROFILES: Final = FOLDER / "samples" / "jupyterhub" / "values.yaml"
