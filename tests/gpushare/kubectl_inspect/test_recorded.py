"""The drop-in promise: what the original printed, to the byte, for every recording and its arguments.

The objects come over real HTTP from a small API server; the recordings are the original's own output.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.main import run
from tests.servers import StubApi, kubeconfig, serve

RECORDED = Path(__file__).parents[2] / "data" / "upstream" / "inspect"
RUNS = [
    pytest.param(json.loads(path.read_text()), words, id=f"{path.stem}[{words}]")
    for path in sorted(RECORDED.glob("*.json"))
    for words in json.loads(path.read_text())["runs"]
]


def sorted_by_name(text: str) -> str:
    """The original's details with the lines of each node's pods in our order: the one difference."""
    lines: list[str] = []
    pods: list[str] | None = None
    for line in text.split("\n"):
        if line.startswith("Allocated :"):
            lines += sorted(pods or [])
            pods = None
        if pods is not None:
            pods.append(line)
        else:
            lines.append(line)
        if line.startswith("NAME  ") and "NAMESPACE" in line:
            pods = []
    return "\n".join(lines)


@pytest.mark.parametrize(("recorded", "words"), RUNS)
async def test_the_original_printed_the_same(recorded: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Output and exit code; nothing on stderr."""
    out, err = io.StringIO(), io.StringIO()
    async with serve(StubApi(nodes=recorded["nodes"], pods=recorded["pods"])) as url:
        environment = {"KUBECONFIG": kubeconfig(tmp_path, url)}
        asked = inspect_arguments.parse("kubectl-inspect-gpushare", words.split())
        code = await asyncio.to_thread(run, asked, environment, out, err)

    was = recorded["runs"][words]

    assert out.getvalue() == sorted_by_name(was["stdout"])
    assert (code, err.getvalue()) == (was["exit"], "")


@pytest.mark.parametrize("program", ["kubectl-inspect-gpushare", "kubectl-inspect_gpushare"])
async def test_the_installed_program_prints_it(program: str, tmp_path: Path) -> None:
    """The installed program prints the recorded output under both names of the console script."""
    recorded = json.loads((RECORDED / "03-one-card-binpack-1080ti.json").read_text())
    async with serve(StubApi(nodes=recorded["nodes"], pods=recorded["pods"])) as url:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).parent / program,
            "-logtostderr",
            "--v=5",
            "-d",
            env={"KUBECONFIG": kubeconfig(tmp_path, url)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()

    assert out.decode() == recorded["runs"]["-d"]["stdout"]
    assert (process.returncode, err) == (0, b"")
