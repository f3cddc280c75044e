"""``python -m e2e validate`` on a running cluster that it uses as if it were foreign, beside pods of others."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import pytest_asyncio

from clusters.api.api_client import MERGE_PATCH, ApiError, Object
from clusters.api.resources import EVENTS, LEASES, NODES, PODS, PRIORITY_CLASSES, Resource
from clusters.api.waiting import eventually
from clusters.provider import Cluster, LimitSpec, NodeSpec
from clusters.targets import Target
from e2e.builders import gpu_pod
from e2e.bursts.world import LIMITED
from e2e.commands import python
from e2e.migration.mixed_fleet import original_fleet
from e2e.observer import Observer, OwnCluster
from e2e.onsite.card_room import room_on
from e2e.onsite.tenancy import NAMESPACE, PRIORITY_CLASS
from e2e.real_kubelets import STAND_INS
from e2e.report.verdict_files import read
from e2e.report.verdict_table import Table
from e2e.tenant import admitted, applied, remove_namespace

_RIGHTS: Final = Path(__file__).parent / "validate-rbac.yaml"
_CUDA: Final = "test_a_program_gets_the_memory_of_its_share"
_TOGETHER: Final = "test_pods_that_run_together_fit_the_cards"
_LIMIT: Final = "test_a_program_gets_no_more_than_its_share"
_SMI: Final = "test_nvidia_smi_shows_the_card_alone"
_CONTAINERS: Final = "test_containers_of_a_pod_get_their_amounts"
_INCOMPLETE: Final = 4


class Validation:
    """The command with the rights that its file asks for."""

    def __init__(self, kubeconfig: Path, report: Path, image: str) -> None:
        self.report = report
        self.words = ["-m", "e2e", "validate", f"--kubeconfig={kubeconfig}", f"--report={report}"]
        self.words += [f"--probe-image={image}"] if image else []

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Run it to its end: its exit code and output."""
        done = await python(*self.words, *arguments)
        return done.code, done.said

    def table(self) -> Table:
        """The report."""
        return read(self.report / "site_report.json")

    def results(self, outcome: str) -> dict[str, str]:
        """The reasons of the cases that have this outcome on any node."""
        cases = self.table().cases.items()
        return {name: one.reason for name, case in cases for one in case.verdicts.values() if one.outcome == outcome}


@pytest_asyncio.fixture(loop_scope="session")
async def validation(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Validation]:
    """The account and the namespace of the file are there inside, and gone behind."""
    is_stand_in = request.config.getoption("--cluster") in STAND_INS
    validation = Validation(await applied(cluster, _RIGHTS), tmp_path / "report", "python:3" if is_stand_in else "")
    yield validation
    with contextlib.suppress(ApiError):
        await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)
    await remove_namespace(cluster.api, NAMESPACE)


@pytest_asyncio.fixture(loop_scope="session")
async def bystanders(observer: Observer, cluster: Cluster, validation: Validation) -> AsyncIterator[Sequence[str]]:
    """Two nodes with pods of others: the first has one unit free, and a resource of a second plugin."""
    first, second = (await nodes_with_cards(cluster))[:2]
    full, other = (str(one["metadata"]["name"]) for one in (first, second))
    cards = room_on(first, ()).cards
    for card in cards:
        tenant = gpu_pod(f"tenant-{card.index}", card.units - (card is cards[-1]), node=full)
        # The class of the file that ``validation`` has applied.
        tenant["spec"]["priorityClassName"] = PRIORITY_CLASS
        await admitted(cluster.api, tenant, observer.namespace)
        await observer.running(f"tenant-{card.index}")
    await observer.run(gpu_pod("tenant-other", 2, node=other))

    async def offer(amount: str | None) -> None:
        patch = {"status": {"capacity": {"nvidia.com/gpu": amount}}}
        await cluster.api.patch(NODES, full, patch, subresource="status", content_type=MERGE_PATCH)

    await offer("1")
    yield full, other
    await offer(None)


async def nodes_with_cards(cluster: Cluster) -> list[Object]:
    """The nodes that have the label."""
    return await cluster.api.list(NODES, label_selector="gpushare=true")


async def traces(cluster: Cluster, prefix: str) -> dict[str, Any]:
    """The pods outside of the namespace, by what a bystander would notice, and the names of the events about pods there.

    Only those with names that begin so, because what an earlier case made may be going away.
    """

    async def there(resource: Resource) -> list[Object]:
        found = [(one, one["metadata"]) for one in await cluster.api.list(resource)]
        return [one for one, at in found if at["namespace"] != NAMESPACE and at["name"].startswith(prefix)]

    pods, events = await there(PODS), await there(EVENTS)
    seen: dict[str, Any] = {
        "events": {one["metadata"]["name"] for one in events if one["involvedObject"]["kind"] == "Pod"}
    }
    for pod in pods:
        metadata, status = pod["metadata"], pod["status"]
        restarts = [one["restartCount"] for one in status.get("containerStatuses") or ()]
        seen[metadata["name"]] = metadata["uid"], status.get("phase"), restarts, metadata.get("annotations")
    return seen


async def left(cluster: Cluster) -> list[Object]:
    """The pods in the namespace."""
    return await cluster.api.list(PODS, NAMESPACE)


async def test_the_plan_comes_first_and_creates_nothing(cluster: Cluster, validation: Validation) -> None:
    """Without --yes the command prints what it would create on which nodes, and ends."""
    # By their uids: a kubelet reports on any pod at any time.
    before = {one["metadata"]["uid"] for one in await cluster.api.list(PODS)}
    code, output = await validation.run("--max-units", "3")

    assert code == 0
    assert "at most 4 pods and 3 units of card memory" in output
    assert "PriorityClass gpushare-validation if they are missing" in output
    assert "one pod asks for more of its card than it booked" in output
    assert output.rstrip().endswith("nothing was created; to go on, add --yes")
    assert before == {one["metadata"]["uid"] for one in await cluster.api.list(PODS)}


async def test_bystanders_notice_nothing(cluster: Cluster, validation: Validation, bystanders: Sequence[str]) -> None:
    """A run beside pods of others changes none of them, be their priority the lowest, and leaves no pod.

    With one unit free on a node a case of two pods is not judged there, and nothing fails.
    """
    full, other = bystanders
    before = await traces(cluster, "tenant-")
    code, output = await validation.run("--yes", "--nodes", f"{full},{other}")
    cases = validation.table().cases

    # The report has to warn of the second plugin.
    assert code == _INCOMPLETE, output
    assert f"Preflight found other plugins of node {full} wrong." in output
    assert await traces(cluster, "tenant-") == before
    assert await left(cluster) == []
    assert {node for case in cases.values() for node in case.verdicts} == {full, other}
    assert {case.verdicts[other].outcome for case in cases.values()} <= {"passed", "not applicable"}
    assert validation.results("failed") == {}
    assert all(validation.results("not applicable").values())
    reason = cases[_TOGETHER].verdicts[full].reason
    assert reason.endswith("has room on its cards for 1 pods of 1 units, and this case needs 2")
    suites = ElementTree.parse(validation.report / "site_report.xml").getroot()
    assert len([*suites.iter("testcase")]) == sum(len(case.verdicts) for case in cases.values())


@pytest.mark.stand_in_only("the original's plugin takes the place of ours")
@pytest.mark.exhaustive("another plugin is built and judged by all cases")
async def test_the_originals_plugin_is_judged_fairly(
    validation: Validation, observer: Observer, target: Target, tmp_path: Path
) -> None:
    """Cases about what it does not publish are not judged; it fails that of several containers alone, by its defect D02."""
    async with original_fleet(observer, target, tmp_path, "a2"):
        code, output = await validation.run("--yes", "--nodes", "a2")

    assert (code, [*validation.results("failed")]) == (3, [_CONTAINERS]), output
    assert validation.results("not judged") == {}
    assert validation.results("passed").keys() >= {_TOGETHER, _CUDA}


@pytest.mark.needs("memory-limit")
@pytest.mark.stand_in_only("containers of kind get no driver")
@pytest.mark.thorough("two nodes of a cluster of their own are validated")
async def test_a_limit_that_is_not_in_force_is_found(own: OwnCluster, tmp_path: Path) -> None:
    """A program gets more than its share on a node without the hook, and on no other; nothing else fails there."""
    options = {**LIMITED, "usage": "", "proc-root": "{proc_root}", "usage-interval": "1s"}
    nodes = [
        NodeSpec(name, "t4x1", "615", plugin_options=options, memory_limits=LimitSpec(hook=name == "limits"))
        for name in ("limits", "does-not")
    ]
    async with own(nodes) as cluster:
        validation = Validation(await applied(cluster, _RIGHTS), tmp_path / "report", "python:3")
        code, output = await validation.run("--yes")
    verdicts = validation.table().cases[_LIMIT].verdicts

    assert (code, [*validation.results("failed")]) == (3, [_LIMIT]), output
    assert verdicts["limits"].outcome == "passed"
    assert "is not refused a quarter more: it has that memory" in verdicts["does-not"].reason


async def test_without_the_priority_class_nothing_starts(cluster: Cluster, validation: Validation) -> None:
    """If the account may not make the class, the run creates no pod, and names the file that makes it."""
    await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)
    code, output = await validation.run("--yes")

    assert code == 1, output
    assert "kubectl apply -f e2e/onsite/validate-rbac.yaml" in output
    assert await left(cluster) == []


@pytest.mark.minutes_on_kind(1, "a run that waits for its pods to go")
async def test_an_interrupted_run_cleans_up(cluster: Cluster, validation: Validation) -> None:
    """SIGTERM in the middle of a case ends the run, and its pods are gone; also of a script's background job."""
    before, pipe = signal.signal(signal.SIGINT, signal.SIG_IGN), asyncio.subprocess.PIPE
    try:
        words = (sys.executable, *validation.words, "--yes")
        run = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    finally:
        signal.signal(signal.SIGINT, before)
    said = asyncio.create_task(run.communicate())
    try:
        await eventually(lambda: left(cluster), lambda pods: bool(pods) or said.done(), "a case has a pod", seconds=300)
        if not said.done():
            run.send_signal(signal.SIGTERM)
        output, _ = await said
    finally:
        if run.returncode is None:
            run.kill()

    assert run.returncode == 130, output.decode()
    assert "incomplete" in output.decode()
    assert "the run ended before this case had a result" in validation.results("not judged").values()
    assert await left(cluster) == []
    assert await cluster.api.list(LEASES, NAMESPACE) == []


@pytest.mark.stand_in_only("containers of kind get no driver")
async def test_a_missing_device_file_fails_cuda_alone(cluster: Cluster, validation: Validation, target: Target) -> None:
    """Without /dev/nvidia-uvm in containers the CUDA case fails with that reason, and the nvidia-smi case does not."""
    node = str((await nodes_with_cards(cluster))[0]["metadata"]["name"])
    await cluster.fake_nvml(node, "device-file", "nvidia-uvm", "missing")
    try:
        code, output = await validation.run("--yes", "--nodes", node)
    finally:
        await cluster.fake_nvml(node, "device-file", "nvidia-uvm", "there")
    reason = validation.results("failed")[_CUDA]

    assert code == 3, output
    assert "cuInit, CUDA_ERROR_UNKNOWN, 999" in reason
    assert "the container has no /dev/nvidia-uvm" in reason
    assert _SMI not in validation.results("failed")
    # With another target the case may not apply.
    assert _SMI in validation.results("passed") or "cards-annotation" not in target.claims
