"""Promises of the programs that kubectl asks for completion, alone and by kubectl itself."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.controlplane.binaries import Binaries
from gpushare.cli.completion_script import answer
from gpushare.cli.flags import flags_of
from gpushare.kubectl_gpushare import gpushare_completion as of_gpushare
from gpushare.kubectl_gpushare.gpushare_arguments import ExplainArguments
from gpushare.kubectl_inspect import inspect_completion as of_inspect
from tests.clusters.conftest import binaries
from tests.servers import StubApi, kubeconfig, serve
from tests.tracked_files import ROOT

__all__ = ["binaries"]
PODS = [
    {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {}}
    for name, namespace in (("first", "default"), ("second", "default"), ("other", "team"))
]
PROGRAMS = {
    "kubectl-gpushare": "kubectl_gpushare.main",
    "kubectl_complete-gpushare": "kubectl_gpushare.gpushare_completion",
    "kubectl-inspect-gpushare": "kubectl_inspect.main",
    "kubectl_complete-inspect-gpushare": "kubectl_inspect.inspect_completion",
}


async def answered(api: StubApi, folder: Path, *words: str) -> str:
    """The answer of explain's completion beside that server."""
    out = io.StringIO()
    async with serve(api) as url:
        environment = {"KUBECONFIG": kubeconfig(folder, url)}
        assert await asyncio.to_thread(answer, [*flags_of(ExplainArguments)], words, environment, out) == 0
    return out.getvalue()


async def test_names_come_from_the_api_server(tmp_path: Path) -> None:
    """Pods of the namespace that was given, else of the context's; what does not begin so is left out."""
    api = StubApi(pods=PODS)
    assert await answered(api, tmp_path, "fi") == "first\n:4\n"
    assert await answered(api, tmp_path, "-n", "team", "") == "other\n:4\n"


async def test_a_refusal_or_no_server_leaves_no_names(tmp_path: Path) -> None:
    """A shell that completes gets no error."""
    api = StubApi(pods=PODS, fault=lambda method, path: (403, {"kind": "Status", "reason": "Forbidden", "code": 403}))
    assert await answered(api, tmp_path, "") == ":4\n"
    out = io.StringIO()
    missing = {"KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    assert await asyncio.to_thread(answer, [*flags_of(ExplainArguments)], [""], missing, out) == 0
    assert out.getvalue() == ":4\n"


@pytest.mark.parametrize(
    ("main", "words", "line"),
    [
        (of_gpushare.main, ["ex"], "explain\tExplain why a pod waits, node by node and card by card"),
        (of_gpushare.main, ["top", "-o", "w"], "wide"),
        (of_gpushare.main, ["nonsense", ""], ":4"),
        (of_gpushare.main, [], "doctor\t"),
        (of_inspect.main, ["--det"], ":4"),
        (of_inspect.main, ["--sort"], "--sort-by\torder of the nodes"),
    ],
)
def test_a_program_completes_its_own_words(
    capsys: pytest.CaptureFixture[str], main: object, words: list[str], line: str
) -> None:
    """Its commands first, then the flags of the command."""
    assert callable(main)
    assert main(words) == 0
    assert any(one.startswith(line) for one in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["gpushare", "sim"], "simulate\tShow where pods would land"),
        (["gpushare", "simulate", "--pol"], "--policy\tthe extender's --policy"),
        (["inspect", "gpushare", "-o", "j"], "json"),
    ],
)
def test_kubectl_finds_the_programs(binaries: Binaries, tmp_path: Path, words: list[str], line: str) -> None:
    """kubectl looks for them on PATH by their names, and passes their answers on."""
    for name, module in PROGRAMS.items():
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m gpushare.{module} "$@"\n')
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [binaries["kubectl"], "__complete", *words], env=environment, capture_output=True, text=True, check=True
    )
    assert any(one.startswith(line) for one in done.stdout.splitlines()), done.stdout
