"""Each site of docs/install on real kubelets: installed as its page has it, three pods on one card, a report, and taken out.

One cluster plays all of them, one after the other; kube-scheduler's own manifest is edited by the first that needs it. Images alone
are not those of the pages (``plain_cluster``).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from clusters.api.waiting import eventually
from clusters.controlplane.binaries import known
from clusters.deploy.chart_tools import locate_tool
from clusters.kind.kind_cluster import KindCluster
from clusters.kind.program_images import build as program_images
from clusters.provider import ClusterError, NodeSpec
from clusters.providers import Choices
from clusters.targets import Target
from e2e import commands, spec
from e2e.builders import gpu_pod
from e2e.kind.plain_cluster import CHART, GPU_NODE, PROFILES, REGISTRY, SAMPLE, SIMULATED, PlainCluster
from e2e.observer import Observer, OwnCluster, observing

pytestmark = pytest.mark.thorough("five installations on real kubelets take minutes")
_HUBS_SCHEDULER: Final = Path(__file__).with_name("hub_scheduler.yaml")
_EXTENDERS_LOG: Final = "kubectl -n kube-system logs deployment/gpushare-schd-extender -c gpushare-schd-extender"
# The first minor that has the kind of the policy which names the second scheduler.
_NAMING_MINOR: Final = 36
_CHART_IMAGES: Final = {
    "extender": {"image": {"repository": f"{REGISTRY}/extender"}},
    "devicePlugin": {"image": {"repository": SIMULATED}},
}


@dataclass(frozen=True, slots=True)
class Variant:
    """How a site differs from the cluster that kubeadm makes, and what is installed there."""

    form: str = "base"
    """The folder of the manifests that the page names."""
    page: str = "index.md"
    """The page with the kustomization."""
    values: dict[str, dict[str, bool]] | None = None
    """Of the chart; None installs by kubectl."""
    is_second_scheduler: bool = False
    changes: tuple[tuple[str, str], ...] = ()
    """The commands that make the nodes those of the site, each with the one that undoes it."""
    node: str = GPU_NODE
    """The node that shares its cards; CONTROL is the control plane's."""
    puts_back: bool = False
    """Is kube-scheduler's manifest put back first, as the page has it? Else the next site finds the flag there."""


_SECOND: Final = {"overlays": {"secondScheduler": True}, "components": {"schedulerName": True}}
# A label and a taint.
_ROLE: Final = "node-role.kubernetes.io/control-plane"
_UNTAINTED: Final = (
    f"kubectl taint node CONTROL {_ROLE}:NoSchedule-",
    f"kubectl taint node CONTROL {_ROLE}=:NoSchedule",
)
_RARE: Final = pytest.mark.minutes_on_kind(2, "CI plays a site by Helm and one by kubectl")
_IN_CI: Final = ("jupyterhub", "kubeadm")
SITES: Final = {
    "second-scheduler": Variant("overlays/second-scheduler", "managed.md", is_second_scheduler=True),
    "jupyterhub": Variant(values=_SECOND, is_second_scheduler=True),
    # The values of labels, and the taints of a server that takes no work, as k3s and RKE2 have them.
    "k3s-like": Variant(
        values={},
        changes=(
            _UNTAINTED,
            (
                f"kubectl label --overwrite node CONTROL {_ROLE}=true node-role.kubernetes.io/etcd=true",
                f"kubectl label --overwrite node CONTROL {_ROLE}= node-role.kubernetes.io/etcd-",
            ),
            (
                "kubectl taint node CONTROL CriticalAddonsOnly=true:NoExecute node-role.kubernetes.io/etcd=true:NoExecute",
                "kubectl taint node CONTROL CriticalAddonsOnly:NoExecute- node-role.kubernetes.io/etcd:NoExecute-",
            ),
        ),
    ),
    # One machine for all, without a label of its role; the other node takes no pods.
    "single-node": Variant(
        "overlays/single-node",
        node="CONTROL",
        changes=(
            ("kubectl cordon NODE", "kubectl uncordon NODE"),
            _UNTAINTED,
            (f"kubectl label node CONTROL {_ROLE}-", f"kubectl label node CONTROL {_ROLE}="),
        ),
    ),
    # Last: it also puts the first manifest of kube-scheduler back.
    "kubeadm": Variant(puts_back=True),
}


@pytest.fixture(scope="module")
def helm() -> Path:
    try:
        return locate_tool("helm", os.environ)
    except ClusterError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plain(
    docker_environment: dict[str, str],
    own: OwnCluster,
    choices: Choices,
    helm: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[PlainCluster]:
    """A cluster of kubeadm with one worker that has cards, and the commands that a page needs."""
    folder = tmp_path_factory.mktemp("sites")
    images = program_images.ensure(docker_environment, sys.stderr, base=choices.image_base or None)
    async with own([NodeSpec(GPU_NODE, "t4x2")], Target(name="nothing")) as cluster:
        assert isinstance(cluster, KindCluster)
        kubectl = known(choices.kubernetes, docker_environment).get("kubectl")
        path = f"{f'{kubectl.parent}:' if kubectl else ''}{helm.parent}:{docker_environment['PATH']}"
        variables = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path, "HOME": str(folder)}
        version = (await cluster.api.request("GET", "/version"))["gitVersion"]
        site = PlainCluster(cluster, version, folder, variables, docker_environment)
        await site.load(images)
        await site.give_cards(site.control_plane, "t4x2")
        yield site


@pytest.mark.parametrize("name", [name if name in _IN_CI else pytest.param(name, marks=_RARE) for name in SITES])
async def test_three_pods_share_a_card_on_each_site(plain: PlainCluster, tmp_path: Path, name: str) -> None:
    """By what was installed alone; then the report passes, and what takes the installation out leaves no object."""
    site, before = SITES[name], await plain.objects()
    if site.is_second_scheduler and int(plain.version.split(".")[1]) < _NAMING_MINOR:
        pytest.skip("the policy that names the second scheduler needs Kubernetes 1.36")
    async with installed(plain, site), observing(plain.cluster, name) as observer:
        await (hub_pods_share(plain, observer) if name == "jupyterhub" else samples_share(plain, observer))
        report = ("--yes", "--report", str(tmp_path / "report"))
        validated = await commands.python("-m", "e2e", "validate", *report, variables=plain.variables)

    assert (validated.code, "passed with simulated cards" in validated.said) == (0, True), validated.said

    async def changed() -> set[str]:
        return before ^ await plain.objects()

    await eventually(changed, lambda names: not names, "each object is gone, and those of others are there")


@contextlib.asynccontextmanager
async def installed(plain: PlainCluster, site: Variant) -> AsyncIterator[None]:
    """The nodes are those of the site and gpushare is there inside, as its page has it; behind it is taken out."""
    async with contextlib.AsyncExitStack() as undone:
        for change, undoes in site.changes:
            await plain.run(change)
            undone.push_async_callback(plain.run, undoes)
        undone.push_async_callback(plain.forget_cards, site.node)
        await plain.run(f"kubectl label node {site.node} gpushare=true")
        if site.values is None:
            folder = plain.kustomization(site.page, site.form)
            undone.push_async_callback(plain.run, "kubectl delete --ignore-not-found -k", folder)
            await plain.run("kubectl apply -k", folder)
        else:
            values = plain.folder / "values.yaml"
            values.write_text(yaml.safe_dump({**_CHART_IMAGES, **site.values}))
            undone.push_async_callback(plain.run, "helm uninstall --ignore-not-found gpushare --namespace kube-system")
            await plain.run("helm install gpushare --namespace kube-system --values", values, CHART)
        if site.puts_back:
            undone.push_async_callback(plain.put_back_scheduler)
        if not site.is_second_scheduler:
            await plain.configure_scheduler()
        for workload in ("deployment/gpushare-schd-extender", "daemonset/gpushare-device-plugin-ds"):
            await plain.run("kubectl -n kube-system rollout status --timeout=120s", workload)
        yield


async def samples_share(plain: PlainCluster, observer: Observer) -> None:
    """The sample, as it is in the repository."""
    await plain.run(f"kubectl -n {observer.namespace} apply -f", SAMPLE)
    try:
        await share_a_card(plain, observer, *(f"binpack-1-{number}" for number in range(3)))
    finally:
        await plain.run(f"kubectl -n {observer.namespace} delete -f", SAMPLE)


async def hub_pods_share(plain: PlainCluster, observer: Observer) -> None:
    """Three users chose the sample's first profile; the hub's own scheduler binds the pod of a fourth, which names it."""
    scheduler = plain.folder / "hub-scheduler.yaml"
    scheduler.write_text(
        _HUBS_SCHEDULER.read_text().replace("IMAGE", f"registry.k8s.io/kube-scheduler:{plain.version}")
    )
    names = [f"jupyter-user-{number}" for number in range(3)]
    await plain.run("kubectl apply -f", scheduler)
    try:
        await observer.create(*map(profile_pod, names))
        await share_a_card(plain, observer, *names)
        await observer.run(profile_pod("jupyter-other", scheduler="jupyterhub-user-scheduler"))
        assert f"bound pod={observer.namespace}/jupyter-other " not in await plain.run(_EXTENDERS_LOG)
        assert (await plain.run("kubectl inspect gpushare --check")).split().count("8/14") == 1
    finally:
        await plain.run("kubectl delete -f", scheduler)


def profile_pod(name: str, scheduler: str = "") -> dict[str, Any]:
    """The pod that KubeSpawner makes of the sample's profile and its first choice, or that a hub's own scheduler gets."""
    profiles = yaml.safe_load(PROFILES.read_text())["singleuser"]["profileList"]
    (profile,) = [one for one in profiles if "profile_options" in one]
    (choice, *_) = profile["profile_options"]["memory"]["choices"].values()
    amount = choice["kubespawner_override"]["extra_resource_limits"][spec.RESOURCE_MEMORY]
    return gpu_pod(name, amount, scheduler=scheduler or profile["kubespawner_override"]["scheduler_name"])


async def share_a_card(plain: PlainCluster, observer: Observer, *names: str) -> None:
    """The extender bound each pod, to one card of one node; their containers got that card."""
    pods = await observer.running(*names)
    cards = {(pod["spec"]["nodeName"], pod["metadata"]["annotations"][spec.POD_INDEX]) for pod in pods}
    seen = {given[spec.ENV_VISIBLE] for pod in pods for given in await observer.variables(pod)}
    log, table = await plain.run(_EXTENDERS_LOG), await plain.run("kubectl inspect gpushare -d")

    assert (len(cards), len(seen)) == (1, 1)
    assert [name for name in names if f"bound pod={observer.namespace}/{name} " not in log or name not in table] == []
