"""Promises of the program: streams, exit codes, and the texts of errors."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml

from gpushare.cli.answer_forms import exit_code
from gpushare.errors import UsageError
from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.main import run
from tests.gpushare.kubectl_gpushare.small_cluster import node, pod
from tests.servers import StubApi, kubeconfig, serve, status

PROGRAM = Path(sys.executable).parent / "kubectl-inspect-gpushare"


async def ran(api: StubApi, folder: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a run against that server, in a thread of its own, as the program has it."""
    out, err = io.StringIO(), io.StringIO()
    async with serve(api) as url:
        environment = {"KUBECONFIG": kubeconfig(folder, url)} | environment
        asked = inspect_arguments.parse("kubectl-x", words)
        code = await asyncio.to_thread(exit_code, lambda: asyncio.run(run(asked, environment, out, err)), err)
    return code, out.getvalue(), err.getvalue()


async def test_a_server_that_does_not_answer_in_time(tmp_path: Path) -> None:
    """The exit code is 1 and stdout is empty."""
    api = StubApi(fault=lambda method, path: "hang")
    code, out, err = await ran(api, tmp_path, "--request-timeout=200ms")
    api.released.set()

    assert (code, out) == (1, "")
    assert "no answer from the API server" in err


async def test_a_kubeconfig_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    """The exit code is 2, and the file is named."""
    code, out, err = await ran(StubApi(), tmp_path, KUBECONFIG="/does/not/exist")

    assert (code, out, "/does/not/exist" in err) == (2, "", True)


async def test_only_the_nodes_pods_are_asked_for(tmp_path: Path) -> None:
    """A cluster of 50,000 pods is not read for one node."""
    api = StubApi(nodes=[{"metadata": {"name": "n.1"}}])
    await ran(api, tmp_path, "n.1")

    assert [call["path"] for call in api.calls] == ["/api/v1/nodes/n.1", "/api/v1/pods"]
    assert "fieldSelector=spec.nodeName%3Dn.1" in api.calls[1]["query"]


async def test_several_nodes_are_shown(tmp_path: Path) -> None:
    """Only they are read; one that is not there ends the command."""
    nodes = [node(name, 14) for name in "abc"]
    code, out, _ = await ran(StubApi(nodes=nodes), tmp_path, "node/a", "no/b", "-o", "name")
    absent = await ran(StubApi(nodes=nodes), tmp_path, "node/a", "node/x")

    assert (code, out) == (0, "node/a\nnode/b\n")
    assert absent == (1, "", "error: there is no node 'x'; `kubectl get nodes` lists them\n")


def unhealthy_node(name: str = "n") -> dict[str, Any]:
    """A node with one lost card of two."""
    return node(name, unhealthy="lost", model="T4")


def bound(name: str, units: int, card: int = 0, on: str = "n", **annotations: str) -> dict[str, Any]:
    """A pod that has a card of 14 units and has not started."""
    one = pod(name, units, on, card)
    one["metadata"]["annotations"] |= {"ALIYUN_COM_GPU_MEM_ASSUME_TIME": "0", **annotations}
    return one | {"status": {}}


async def test_a_node_with_an_unreadable_pod_has_no_room(tmp_path: Path) -> None:
    """Its cards have nothing free, as for the extender; the pod is named. It is so with a watch, too."""
    odd = bound("odd", 4) | {"spec": {"nodeName": "n", "priority": "high"}}
    api = StubApi(nodes=[node("n", 14)], pods=[odd])
    _, out, err = await ran(api, tmp_path, "-o", "json")
    warnings = err.splitlines()

    assert [card["free"] for card in json.loads(out)["nodes"][0]["cards"]] == [0]
    assert warnings[0].startswith("warning: pod team/odd cannot be read, so node n gets no pods until it is gone: ")
    assert warnings[1].startswith("warning: node n gets no pods: a pod on the node cannot be read")


@pytest.mark.parametrize(
    "words", [(), ("-d",), ("-o", "wide"), ("-o", "json"), ("-o", "yaml"), ("-o", "json", "--check")]
)
async def test_no_text_of_a_node_steers_a_terminal(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A node's token writes its annotations and addresses: escapes, text direction and line ends in them are not obeyed."""
    evil = "a\x1b[2J\x07\x7f\x9b31m\u202e\u2028\U000e0041\r\n10.0.0.9\tb"
    odd = node("n", unhealthy=evil, model=evil)
    odd["status"]["addresses"] = [{"type": "InternalIP", "address": evil}]
    _, out, err = await ran(StubApi(nodes=[odd]), tmp_path, *words)

    assert all(line.isprintable() for line in [*out.split("\n"), *err.split("\n")])
    assert not any(line.startswith("10.0.0.9") for line in [*out.split("\n"), *err.split("\n")])
    if "json" in words or "yaml" in words:
        load = json.loads if "json" in words else yaml.safe_load
        assert load(out)["nodes"][0]["address"] == evil


async def started(
    url: str, folder: Path, *words: str, program: Path = PROGRAM, stdout: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    # The checkout under test, if another one is installed.
    environment = {"KUBECONFIG": kubeconfig(folder, url), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return await asyncio.create_subprocess_exec(
        program, *words, env=environment, stdout=stdout, stderr=asyncio.subprocess.PIPE
    )


@pytest.mark.parametrize("program", [PROGRAM, PROGRAM.with_name("kubectl-inspect_gpushare")])
async def test_it_is_installed_under_both_names(program: Path, tmp_path: Path) -> None:
    """The second is the one by which kubectl looks for a command with a dash."""
    async with serve(StubApi(nodes=[unhealthy_node()])) as url:
        process = await started(url, tmp_path, "-logtostderr", "-o", "name", program=program)
        out, _ = await process.communicate()

    assert (process.returncode, out) == (0, b"node/n\n")


async def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    """A reader that leaves early gets no traceback, as in ``kubectl inspect gpushare | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    async with serve(StubApi()) as url:
        process = await started(url, tmp_path, stdout=writing)
        os.close(writing)
        _, err = await process.communicate()

    assert (process.returncode, err) == (1, b"")


async def test_nodes_of_a_selector(tmp_path: Path) -> None:
    """The server selects; a pod of another node is no fault of these."""
    api = StubApi(nodes=[unhealthy_node()], pods=[bound("a", 3), bound("b", 4, on="other", ALIYUN_COM_GPU_MEM_IDX="x")])
    odd = bound("odd", 4, on="other")
    api.pods.append(odd | {"spec": odd["spec"] | {"priority": "high"}})
    code, out, err = await ran(api, tmp_path, "-l", "zone=x,!old")

    assert code == 0
    assert dict(parse_qsl(api.calls[0]["query"]))["labelSelector"] == "zone=x,!old"
    assert "3/14" in out
    assert "pod team/" not in err


async def test_check_names_each_finding(tmp_path: Path) -> None:
    """3, and one line for each; without a finding 0 and none."""
    old = bound("old", 3, ALIYUN_COM_GPU_MEM_ASSUME_TIME="1000000000000000000")
    item = unhealthy_node()
    why = {"type": "GPUShareMemoryLimits", "status": "False", "reason": "NoHook", "message": "why"}
    item["status"] = item["status"] | {"conditions": [why]}
    api = StubApi(nodes=[item], pods=[bound("a", 13), old])
    code, out, err = await ran(api, tmp_path, "--check")
    _, document, _ = await ran(api, tmp_path, "--check", "-o", "json")
    healthy = unhealthy_node()
    healthy["metadata"]["annotations"] = {}
    good = await ran(StubApi(nodes=[healthy], pods=[bound("a", 13)]), tmp_path, "--check")

    assert code == 3
    assert [line.partition(" for ")[0] for line in err.splitlines()] == [
        "finding: node n: card 1 (T4, GPU-1) gets no pods: lost",
        "finding: node n: card 0 is over-booked: 16 of 14 units",
        "finding: node n: GPUShareMemoryLimits is False (NoHook): why",
        "finding: pod team/old: it has a card of node n",
    ]
    assert len(json.loads(document)["findings"]) == 4
    assert out.splitlines()[1].split() == ["n", "unknown", "16/14", "0/14", "16/28"]
    assert (good[0], good[2]) == (0, "")


async def test_rights_in_one_namespace_show_that_namespace(tmp_path: Path) -> None:
    """The cards that its pods have are shown, and stderr names what is not."""

    def no_right(method: str, path: str) -> Any:
        is_hidden = path in ("/api/v1/nodes", "/api/v1/pods", "/api/v1/nodes/n")
        return status(403, f'User "u" cannot list {path}') if is_hidden else None

    api = StubApi(nodes=[unhealthy_node()], pods=[bound("a", 3, 1), bound("b", 2, 1)], fault=no_right)
    code, out, err = await ran(api, tmp_path, "-n", "team")
    refused = await ran(api, tmp_path)
    selected = await ran(api, tmp_path, "-n", "team", "-l", "x=y")

    assert (code, out.splitlines()[1].split()) == (0, ["n", "unknown", "5/14", "5/14"])
    assert [line.split()[:2] for line in err.splitlines()] == [["hidden:", "nodes"], ["hidden:", "pods"]]
    assert (refused[0], refused[1]) == (1, "")
    assert "with -n NAMESPACE the pods of one namespace are enough" in refused[2]
    assert selected[0] == 1


async def test_pods_of_one_namespace_on_nodes_that_are_seen(tmp_path: Path) -> None:
    """Nodes are whole, and what other pods have is hidden."""
    api = StubApi(nodes=[unhealthy_node()], pods=[bound("a", 3)])
    api.fault = lambda _, path: status(403, 'User "u" cannot list pods') if path == "/api/v1/pods" else None
    code, out, err = await ran(api, tmp_path, "-n", "team")

    assert (code, out.splitlines()[1].split()) == (0, ["n", "unknown", "3/14", "0/14", "3/28"])
    assert err.startswith("hidden: pods of other namespaces")


@pytest.mark.parametrize("words", [("--watch", "--check"), ("n", "-l", "x=y")])
def test_flags_that_contradict_each_other(words: tuple[str, ...]) -> None:
    """The text names the two."""
    with pytest.raises(UsageError, match="leave one out"):
        inspect_arguments.parse("kubectl-x", words)


async def test_nodes_that_change_are_shown_as_they_do(tmp_path: Path) -> None:
    """The table first, then a line without a header for each node of which a pod comes, goes or can be read again, until Ctrl-C."""
    kind = {"kind": "Pod", "apiVersion": "v1"}
    api = StubApi(nodes=[unhealthy_node(), unhealthy_node("other")])
    async with serve(api) as url:
        process = await started(url, tmp_path, "-w")
        assert process.stdout is not None
        async with asyncio.timeout(300):
            first = [(await process.stdout.readline()).decode().split() for _ in range(6)]
            api.put(kind | bound("a", 3))
            came = (await process.stdout.readline()).decode().split()
            api.delete("pods", "a")
            went = (await process.stdout.readline()).decode().split()
            odd = bound("odd", 4)
            api.put(kind | odd | {"spec": odd["spec"] | {"priority": "high"}})
            closed = (await process.stdout.readline()).decode().split()
            api.put(kind | odd)
            read = (await process.stdout.readline()).decode().split()
        process.send_signal(2)
        rest, err = await process.communicate()

    assert [line[0] for line in first[:3]] == ["NAME", "n", "other"]
    assert came == ["n", "unknown", "3/14", "0/14", "3/28"]
    assert went == closed == ["n", "unknown", "0/14", "0/14", "0/28"]
    assert read == ["n", "unknown", "4/14", "0/14", "4/28"]
    assert (process.returncode, rest) == (130, b"")
    assert b"Traceback" not in err
