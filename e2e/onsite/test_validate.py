"""``python -m e2e validate`` on a running cluster that it uses as if it were foreign, beside pods of others."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
import pytest_asyncio

from clusters.api.api_client import MERGE_PATCH, ApiError, Object
from clusters.api.resources import EVENTS, LEASES, NODES, PODS, PRIORITY_CLASSES
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from clusters.targets import Target
from e2e.builders import gpu_pod
from e2e.migration.mixed_fleet import original_fleet
from e2e.observer import Observer
from e2e.onsite.card_room import room_on
from e2e.onsite.test_tenancy import a_held_up_pod
from e2e.real_kubelets import STAND_INS
from e2e.report.verdict_files import read
from e2e.report.verdict_table import Table
from e2e.site.validation_namespace import NAMESPACE, PRIORITY_CLASS
from e2e.tenant import admitted, applied, remove_namespace

_RIGHTS: Final = Path(__file__).parent / "validate-rbac.yaml"
_CUDA: Final = "test_a_program_gets_the_memory_of_its_share"
_TOGETHER: Final = "test_pods_that_run_together_fit_the_cards"
_SMI: Final = "test_nvidia_smi_shows_the_card_alone"
_CONTAINERS: Final = "test_containers_of_a_pod_get_their_amounts"
_INCOMPLETE: Final = 4


class Validation:
    """The command with the rights that its file asks for."""

    def __init__(self, kubeconfig: Path, report: Path, image: str) -> None:
        self.report = report
        self._command = [sys.executable, "-m", "e2e", "validate", f"--kubeconfig={kubeconfig}", f"--report={report}"]
        self._command += [f"--probe-image={image}"] if image else []
        self._output = ""
        self._started: list[asyncio.subprocess.Process] = []

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start it."""
        out = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdout=out, stderr=asyncio.subprocess.STDOUT
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End what still runs, or is stopped, because its case failed."""
        for process in self._started:
            if process.returncode is None:
                process.kill()

    async def run(self, *arguments: str) -> tuple[int | None, str]:
        """Run it to its end: its exit code and output."""
        process = await self.start(*arguments)
        output, _ = await process.communicate()
        self._output = output.decode()
        return process.returncode, self._output

    def table(self) -> Table:
        """The report."""
        path = self.report / "site_report.json"
        assert path.exists(), self._output
        return read(path)

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
    validation.end()
    with contextlib.suppress(ApiError):
        await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)
    await remove_namespace(cluster.api, NAMESPACE)


@pytest_asyncio.fixture(loop_scope="session")
async def bystanders(observer: Observer, cluster: Cluster) -> AsyncIterator[None]:
    """Pods of others, with bookings, and a resource of a second plugin on the first node."""
    node = str((await nodes_with_cards(cluster))[0]["metadata"]["name"])
    await observer.run(gpu_pod("tenant", 3, node=node), gpu_pod("other", 2))

    async def offer(amount: str | None) -> None:
        patch = {"status": {"capacity": {"nvidia.com/gpu": amount}}}
        await cluster.api.patch(NODES, node, patch, subresource="status", content_type=MERGE_PATCH)

    await offer("1")
    yield
    await offer(None)


async def nodes_with_cards(cluster: Cluster) -> list[Object]:
    """The nodes that have the label."""
    return await cluster.api.list(NODES, label_selector="gpushare=true")


async def traces(cluster: Cluster, prefix: str = "") -> dict[str, Any]:
    """The pods outside of the namespace, and the events about them, by what a bystander would notice.

    Only those with names that begin so, because what an earlier case made may be going away.
    """

    def counts(item: Object) -> bool:
        namespace, name = (str(item["metadata"][key]) for key in ("namespace", "name"))
        return namespace != NAMESPACE and name.startswith(prefix)

    pods = filter(counts, await cluster.api.list(PODS))
    events = filter(counts, await cluster.api.list(EVENTS))
    return {
        **{
            f"pod {pod['metadata']['name']}": (
                pod["metadata"]["uid"],
                pod["status"].get("phase"),
                [one["restartCount"] for one in pod["status"].get("containerStatuses") or ()],
                pod["metadata"].get("annotations"),
            )
            for pod in pods
        },
        **{
            f"event {one['metadata']['name']}": one.get("count")
            for one in events
            if one["involvedObject"]["kind"] == "Pod"
        },
    }


async def left(cluster: Cluster) -> list[Object]:
    """The pods in the namespace."""
    return await cluster.api.list(PODS, NAMESPACE)


async def test_the_plan_comes_first_and_creates_nothing(cluster: Cluster, validation: Validation) -> None:
    """Without --yes the command prints what it would create on which nodes, and ends."""
    before = {one["metadata"]["resourceVersion"] for one in await cluster.api.list(PODS)}
    code, output = await validation.run("--max-units", "3")

    assert code == 0
    assert "at most 4 pods and 3 units of card memory" in output
    assert "PriorityClass gpushare-validation if they are missing" in output
    assert "one pod uses more of its card than it booked" in output
    assert output.rstrip().endswith("nothing was created; to go on, add --yes")
    assert before == {one["metadata"]["resourceVersion"] for one in await cluster.api.list(PODS)}


@pytest.mark.usefixtures("bystanders")
async def test_bystanders_notice_nothing(cluster: Cluster, validation: Validation) -> None:
    """A run passes beside pods of others, changes none of them, and leaves no pod."""
    before = await traces(cluster)
    nodes = [one["metadata"]["name"] for one in await nodes_with_cards(cluster)][:2]
    code, output = await validation.run("--yes", "--nodes", ",".join(nodes))
    cases = validation.table().cases.values()

    # The report has to warn of the second plugin.
    assert code == _INCOMPLETE, output
    assert f"Preflight found other plugins of node {nodes[0]} wrong." in output
    assert await traces(cluster) == before
    assert await left(cluster) == []
    assert {node for case in cases for node in case.verdicts} == set(nodes)
    assert {one.outcome for case in cases for one in case.verdicts.values()} <= {"passed", "not applicable"}
    assert all(validation.results("not applicable").values())
    suites = ElementTree.parse(validation.report / "site_report.xml").getroot()
    assert len([*suites.iter("testcase")]) == sum(len(case.verdicts) for case in cases)


async def test_a_nearly_full_node_loses_no_pod(cluster: Cluster, validation: Validation, observer: Observer) -> None:
    """With one unit free no pod goes for ours, be its priority the lowest; a case of two pods is not judged."""
    node = (await nodes_with_cards(cluster))[0]
    cards = room_on(node, ()).cards
    for card in cards:
        tenant = gpu_pod(f"tenant-{card.index}", card.units - (card is cards[-1]), node=node["metadata"]["name"])
        tenant["spec"]["priorityClassName"] = PRIORITY_CLASS
        await admitted(cluster.api, tenant, observer.namespace)
        await observer.running(f"tenant-{card.index}")
    before = await traces(cluster, "tenant-")
    _, output = await validation.run("--yes", "--nodes", node["metadata"]["name"])

    assert await traces(cluster, "tenant-") == before
    assert validation.results("failed") == {}, output
    reason = validation.results("not judged")[_TOGETHER]
    assert reason.endswith("has room on its cards for 1 pods of 1 units, and this case needs 2")


@pytest.mark.stand_in_only("the original's plugin takes the place of ours")
@pytest.mark.exhaustive("another plugin is built and judged by all cases")
async def test_the_originals_plugin_is_judged_fairly(
    validation: Validation, observer: Observer, target: Target, tmp_path: Path
) -> None:
    """Cases about what it does not publish are not judged; it fails that of several containers alone, by its defect D2."""
    async with original_fleet(observer, target, tmp_path, "a2"):
        code, output = await validation.run("--yes", "--nodes", "a2")

    assert (code, [*validation.results("failed")]) == (3, [_CONTAINERS]), output
    assert validation.results("not judged") == {}
    assert validation.results("passed").keys() >= {_TOGETHER, _CUDA}


async def test_without_the_priority_class_nothing_starts(cluster: Cluster, validation: Validation) -> None:
    """If the account may not make the class, the run creates no pod, and names the file that makes it."""
    await cluster.api.delete(PRIORITY_CLASSES, PRIORITY_CLASS)
    code, output = await validation.run("--yes")

    assert code == 1, output
    assert "kubectl apply -f e2e/onsite/validate-rbac.yaml" in output
    assert await left(cluster) == []


@pytest.mark.minutes_on_kind(1, "a run that waits for its pods to go")
async def test_an_interrupted_run_cleans_up(cluster: Cluster, validation: Validation) -> None:
    """SIGTERM in the middle of a case ends the run, and its pods are gone."""
    process = await validation.start("--yes")
    ending = asyncio.create_task(process.wait())

    async def is_amid_or_over() -> bool:
        return bool(await left(cluster)) or ending.done()

    await eventually(is_amid_or_over, bool, "a case has created a pod", seconds=300)
    if not ending.done():
        process.send_signal(signal.SIGTERM)
    output, _ = await process.communicate()

    assert process.returncode == 130, output.decode()
    assert "incomplete" in output.decode()
    assert "the run ended before this case had a result" in validation.results("not judged").values()
    assert await left(cluster) == []
    assert await cluster.api.list(LEASES, NAMESPACE) == []


@pytest.mark.minutes_on_kind(1, "a run that waits for a pod to go")
async def test_a_run_that_is_interrupted_early_leaves_nothing(cluster: Cluster, validation: Validation) -> None:
    """SIGTERM while a run waits for what another one left ends it, and its lease is gone; also of a script's background job."""
    async with a_held_up_pod(cluster) as is_deleted:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = await validation.start("--yes")
        finally:
            signal.signal(signal.SIGINT, before)
        await is_deleted()
        process.send_signal(signal.SIGTERM)
        output, _ = await process.communicate()

    assert process.returncode == 130, output.decode()
    assert await cluster.api.list(LEASES, NAMESPACE) == []


@pytest.mark.stand_in_only("containers of kind get no driver")
async def test_a_missing_device_file_fails_cuda_alone(cluster: Cluster, validation: Validation) -> None:
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
    assert _SMI in validation.results("passed")
