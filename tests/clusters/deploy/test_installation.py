"""A real API server takes what kubectl applies, over what was there before, and removing it leaves nothing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.waiting import eventually
from clusters.controlplane.binaries import Binaries
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.deploy.chart_tools import operator_kinds
from clusters.deploy.render import BASE, OVERLAY_KIND, write_site
from clusters.processes.commands import output_of
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError
from e2e.earlier_version import CHECKOUT, unpack
from tests.clusters.deploy.reading import OTHER_FORMS, SITES

pytestmark = [pytest.mark.thorough("a real control plane starts"), pytest.mark.asyncio(loop_scope="module")]
# Runs a program on the cluster; the text that it prints.
Command = Callable[..., Awaitable[str]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def command(binaries: Binaries) -> AsyncIterator[Command]:
    """Programs on a cluster without nodes, which has the kinds of the Prometheus operator."""
    try:
        kinds = operator_kinds({**os.environ, "GOPROXY": "off"})
    except ClusterError as error:
        pytest.skip(
            f"no kinds of the Prometheus operator, `python -m clusters.deploy.chart_tools` fetches them: {error}"
        )
    with scratch_folder() as folder:
        plane = RealControlPlane(binaries, folder, dict(os.environ))
        # Programs keep their caches below HOME, and kubectl in a folder that a variable names.
        environment = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig),
            "HOME": str(folder),
            "KUBECACHEDIR": str(folder),
        }

        async def run(program: str | Path, *arguments: str | Path) -> str:
            found = binaries["kubectl"] if program == "kubectl" else program
            return await output_of([str(word) for word in (found, *arguments)], environment)

        try:
            await plane.start()
            await run("kubectl", "apply", "--server-side", *(f"--filename={kind}" for kind in kinds))
            # `kubectl wait` fails on a kind that has no conditions yet.
            columns = 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Established")].status}{"\\n"}{end}'
            await eventually(
                lambda: run("kubectl", "get", "customresourcedefinitions", f"--output={columns}"),
                lambda text: set(text.splitlines()) == {"True"},
                "the kinds of the Prometheus operator are established",
            )
            yield run
        finally:
            await plane.stop()


async def all_objects(command: Command) -> list[str]:
    """The names of all objects of the cluster, but of events."""
    kinds = (await command("kubectl", "api-resources", "--verbs=list", "--output=name")).split()
    listed = ",".join(kind for kind in kinds if not kind.startswith(("events", "componentstatuses")))
    return sorted((await command("kubectl", "get", listed, "--all-namespaces", "--output=name")).split())


async def test_each_site_is_applied_over_the_last(command: Command, tmp_path: Path) -> None:
    """Fields that do not exist are refused, and so are changes of what cannot change; deleting leaves nothing."""
    before = await all_objects(command)
    # The one for kind is applied by each cluster of kind.
    for name, (folder, components) in (SITES | OTHER_FORMS).items():
        if folder == OVERLAY_KIND:
            continue
        (tmp_path / name).mkdir()
        await command("kubectl", "apply", "--validate=strict", "-k", write_site(tmp_path / name, folder, components))
    assert len(await all_objects(command)) > len(before)

    for name in ("all", "base-slots", "second-scheduler-all"):
        await command("kubectl", "delete", "--ignore-not-found", "-k", tmp_path / name)
    await eventually(lambda: all_objects(command), lambda now: now == before, "nothing is left")


async def test_the_earlier_manifests_change_to_these_and_back(command: Command, tmp_path: Path) -> None:
    """No field that cannot change differs: `kubectl apply` upgrades base, and applies the earlier one over it again."""
    earlier = unpack(tmp_path) / BASE.relative_to(CHECKOUT)
    before = await all_objects(command)
    for folder in (earlier, BASE, earlier):
        await command("kubectl", "apply", "--validate=strict", "-k", folder)

    for folder in (BASE, earlier):
        await command("kubectl", "delete", "--ignore-not-found", "-k", folder)
    await eventually(lambda: all_objects(command), lambda now: now == before, "nothing is left")
