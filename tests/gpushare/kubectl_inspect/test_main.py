"""Promises of the program: streams, exit codes, and the texts of errors."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.main import run
from tests.servers import StubApi, kubeconfig, serve, status

PROGRAM = Path(sys.executable).parent / "kubectl-inspect-gpushare"


async def ran(api: StubApi, folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a run against that server."""
    out, err = io.StringIO(), io.StringIO()
    async with serve(api) as url:
        # The checkout under test, if another one is installed.
        environment = {"KUBECONFIG": kubeconfig(folder, url), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        code = await asyncio.to_thread(run, inspect_arguments.parse("kubectl-x", words), environment, out, err)
    return code, out.getvalue(), err.getvalue()


async def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    """1, on stderr, with what to do."""
    code, out, err = await ran(StubApi(), tmp_path, "absent")

    assert (code, out) == (1, "")
    assert err == "error: there is no node 'absent'; `kubectl get nodes` lists them\n"


async def test_a_role_without_the_right(tmp_path: Path) -> None:
    """The server's own words say which right."""
    api = StubApi(fault=lambda method, path: status(403, 'cannot list resource "pods"') if "pods" in path else None)
    code, out, err = await ran(api, tmp_path)

    assert (code, out) == (1, "")
    assert 'cannot list resource "pods"' in err


async def test_a_server_that_does_not_answer_in_time(tmp_path: Path) -> None:
    """The exit code is 1 and stdout is empty."""
    api = StubApi(fault=lambda method, path: "hang")
    code, out, err = await ran(api, tmp_path, "--request-timeout=200ms")
    api.released.set()

    assert (code, out) == (1, "")
    assert "no answer from the API server" in err


async def test_only_the_nodes_pods_are_asked_for(tmp_path: Path) -> None:
    """A cluster of 50,000 pods is not read for one node."""
    api = StubApi(nodes=[{"metadata": {"name": "n.1"}}])
    await ran(api, tmp_path, "n.1")

    assert [call["path"] for call in api.calls] == ["/api/v1/nodes/n.1", "/api/v1/pods"]
    assert "fieldSelector=spec.nodeName%3Dn.1" in api.calls[1]["query"]


async def test_an_odd_annotation_is_a_warning_beside_the_table(tmp_path: Path) -> None:
    """The table is whole, and goes to stdout alone."""
    amounts = {"aliyun.com/gpu-mem": "14", "aliyun.com/gpu-count": "1"}
    node = {"metadata": {"name": "n"}, "status": {"capacity": amounts, "allocatable": amounts}}
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "x"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]},
    }
    code, out, err = await ran(StubApi(nodes=[node], pods=[pod]), tmp_path)

    assert (code, err.splitlines()[0].partition(": ")[0]) == (0, "warning")
    assert "pod d/p" in err
    assert "3/14 (21%)" in out


def sick_node() -> dict[str, Any]:
    """A node with one lost card of two."""
    amounts = {"aliyun.com/gpu-mem": "28", "aliyun.com/gpu-count": "2"}
    cards = [
        {
            "index": at,
            "uuid": f"GPU-{at}",
            "model": "T4",
            "mib": 15_360,
            "units": 14,
            "healthy": not at,
            "reason": "lost",
        }
        for at in range(2)
    ]
    text = json.dumps({"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": cards})
    return {
        "metadata": {"name": "n", "annotations": {"aliyun.com/gpushare-cards": text}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def test_a_lost_card_is_reported_below_the_table(tmp_path: Path) -> None:
    """Stdout stays the original's to the byte, and stderr names the card."""
    api = StubApi(nodes=[sick_node()])
    code, out, err = await ran(api, tmp_path)

    assert (code, out.splitlines()[1].split()) == (0, ["n", "unknown", "0/14", "0/14", "0/28"])
    assert err == "warning: node n: card 1 (T4, GPU-1) gets no pods: lost\n"


async def test_output_for_programs(tmp_path: Path) -> None:
    """JSON and YAML hold the warnings too; a namespace and an order choose the nodes."""
    api = StubApi(nodes=[sick_node()])
    _, text, _ = await ran(api, tmp_path, "-o", "json", "--sort-by", ".total")
    _, same, _ = await ran(api, tmp_path, "-o", "yaml")
    _, none, _ = await ran(api, tmp_path, "-o", "json", "-n", "team")

    assert json.loads(text) == yaml.safe_load(same)
    assert [card["healthy"] for card in json.loads(text)["nodes"][0]["cards"]] == [True, False]
    assert json.loads(none)["nodes"] == []


async def test_tables_without_headers(tmp_path: Path) -> None:
    """One line for each node, or with -d for each pod, which begins with its node: what awk needs."""
    pod: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]},
    }
    api = StubApi(nodes=[sick_node()], pods=[pod])
    _, nodes, _ = await ran(api, tmp_path, "--no-headers")
    _, pods, _ = await ran(api, tmp_path, "--no-headers", "-d")

    assert [line.split() for line in nodes.splitlines()] == [["n", "unknown", "3/14", "0/14", "3/28"]]
    assert [line.split() for line in pods.splitlines()] == [["n", "p", "d", "3", "0"]]


async def test_a_flag_wins_over_the_environment(tmp_path: Path) -> None:
    """KUBECONFIG is not read."""
    out, err = io.StringIO(), io.StringIO()
    async with serve(StubApi()) as url:
        asked = inspect_arguments.parse("kubectl-x", ["--kubeconfig", kubeconfig(tmp_path, url)])
        code = await asyncio.to_thread(run, asked, {"KUBECONFIG": "/does/not/exist"}, out, err)

    assert (code, err.getvalue()) == (0, "")


def test_a_kubeconfig_that_is_not_there_is_a_usage_error() -> None:
    """The exit code is 2, and the file is named."""
    out, err = io.StringIO(), io.StringIO()
    code = run(inspect_arguments.parse("kubectl-x", []), {"KUBECONFIG": "/does/not/exist"}, out, err)

    assert (code, out.getvalue()) == (2, "")
    assert "/does/not/exist" in err.getvalue()


async def started(*words: str, environment: dict[str, str], stdout: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        PROGRAM, *words, env=environment, stdout=stdout, stderr=asyncio.subprocess.PIPE
    )


async def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    """A reader that leaves early gets no traceback, as in ``kubectl inspect gpushare | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    async with serve(StubApi()) as url:
        process = await started(environment={"KUBECONFIG": kubeconfig(tmp_path, url)}, stdout=writing)
        os.close(writing)
        _, err = await process.communicate()

    assert (process.returncode, err) == (1, b"")


async def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    """130, without a traceback, while an answer is waited for."""
    api = StubApi(fault=lambda method, path: "hang")
    async with serve(api) as url:
        process = await started(
            "--request-timeout=0", environment={"KUBECONFIG": kubeconfig(tmp_path, url)}, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(300):
            while not api.calls:  # noqa: ASYNC110  # what another process does
                await asyncio.sleep(0.01)
        process.send_signal(2)
        out, err = await process.communicate()
        api.released.set()

    assert (process.returncode, out, err) == (130, b"", b"")
