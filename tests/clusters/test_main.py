"""Promises of ``python -m clusters``, as a person runs it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from aiohttp import ClientSession

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import SERVICE_ACCOUNTS
from e2e.commands import children_of
from tests.servers import until

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clusters", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_up_offers_a_cluster_and_ends_cleanly(
    request: pytest.FixtureRequest, tmp_path: Path, number: int
) -> None:
    """The lines work in a bare shell, the cluster's rights cannot be deleted, and Ctrl-C ends programs, folder and file."""
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: one}, {name: two, box: t4x1}]")
    out, pipe = tmp_path / "kubeconfig", asyncio.subprocess.PIPE
    options = ["--nodes", str(tmp_path / "nodes.yaml"), "--kubeconfig", str(out)]
    command = [sys.executable, "-m", "clusters", "up", *options]
    cluster = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=pipe)
    request.addfinalizer(lambda: cluster.kill() if cluster.returncode is None else None)
    assert cluster.stdout is not None
    lines = []
    async with asyncio.timeout(300):
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append((await cluster.stdout.readline()).decode().rstrip())
    (export,) = [line for line in lines if line.startswith("  export ")]
    (page,) = [line.removeprefix("the page: ") for line in lines if "page" in line]
    shell = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    script = ["/bin/sh", "-ec", f"{export}\nkubectl-inspect-gpushare\nfake-nvml show\n"]
    done = await asyncio.to_thread(
        partial(subprocess.run, script, env=shell, cwd="/", capture_output=True, text=True, check=False)
    )
    async with ApiClient.from_kubeconfig(out) as api:
        with pytest.raises(ApiError, match="the programs of this cluster run beside it"):
            await api.delete(SERVICE_ACCOUNTS, "gpushare-schd-extender", "kube-system")
    async with ClientSession() as http, http.get(page) as answer:
        shown = await answer.text()
    # Two programs, the process that forks them, and the one that removes the folder even after a crash.
    programs = children_of(cluster.pid)
    cluster.send_signal(number)
    _, errors = await cluster.communicate()

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NAME  IPADDRESS  GPU0(Allocated/Total)  GPU Memory(GiB)\ntwo ")
    assert "Tesla T4" in done.stdout
    assert "<html" in shown
    assert (cluster.returncode, errors) == (0, b"")
    assert programs
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in programs), seconds=60)
    assert not out.exists()
    assert not Path(export.partition("KUBECONFIG=")[2].split()[0]).parent.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "VERB"),
        (["up", "--provider", "moon"], 2, "moon"),
        (["up", "--nodes", "/nowhere.yaml"], 1, "/nowhere.yaml"),
        (["up", "--target", "nobody"], 1, "nobody"),
        (["up", "--speed", "0"], 1, "factor 0.0"),
        (["up", "--demo", "--provider", "kind"], 1, "nodes of its own"),
        (["up", "--provider", "controlplane", "--speed", "60"], 1, "no clock to speed up"),
        (["up", "--provider", "controlplane", "--assets", "/nowhere"], 1, "/nowhere: not a folder"),
        (["up", "--provider", "kind", "--speed", "60"], 1, "no clock to speed up"),
        (["up", "--node-image", "kindest/node:v1.36.1"], 1, "no containers"),
        (["up", "--kubeconfig", "/nowhere/config"], 1, "/nowhere"),
    ],
)
def test_a_call_that_makes_no_sense_says_so(arguments: Sequence[str], code: int, says: str) -> None:
    """Exit code 2 for the call, 1 for what it names; on standard error, without a traceback."""
    result = run(*arguments)

    assert result.returncode == code
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_box_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    """Every program that was started is ended; the error names the box."""
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: one, box: nonsense}]")
    result = run("up", "--nodes", str(tmp_path / "nodes.yaml"))

    assert (result.returncode, "nonsense" in result.stderr, "Traceback" in result.stderr) == (1, True, False)
