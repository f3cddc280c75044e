"""Promises of completion: the words that may stand at the end of a command line, also as kubectl itself asks for them."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.controlplane.binaries import Binaries
from gpushare.cli.completion import answer, complete
from gpushare.cli.flags import Flag, flags_of
from gpushare.kubectl_gpushare.gpushare_arguments import ExplainArguments, SimulateArguments, TopArguments
from tests.clusters.conftest import binaries
from tests.servers import StubApi, kubeconfig, serve
from tests.tracked_files import ROOT

__all__ = ["binaries"]
PODS = [
    {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {}}
    for name, namespace in (("first", "default"), ("second", "default"), ("other", "team"))
]
PROGRAMS = {
    "kubectl-gpushare": "kubectl_gpushare.main:main",
    "kubectl_complete-gpushare": "kubectl_gpushare.gpushare_arguments:complete",
    "kubectl-inspect-gpushare": "kubectl_inspect.main:main",
    "kubectl_complete-inspect-gpushare": "kubectl_inspect.inspect_arguments:complete",
}
EXPLAIN = [*flags_of(ExplainArguments)]
TOP = [*flags_of(TopArguments)]
SIMULATE = [*flags_of(SimulateArguments)]
NAMES = ("pod-a", "pod-b", "web")


def lines(declared: list[Flag], *words: str) -> list[str]:
    """The answer, with the names above as those of all objects, without what they mean."""
    wanted = complete(declared, words)
    return [line.partition("\t")[0] for line in wanted.text(NAMES if wanted.objects else ()).splitlines()]


@pytest.mark.parametrize(
    ("declared", "words", "expected"),
    [
        (EXPLAIN, ["--na"], ["--namespace", ":4"]),
        (EXPLAIN, ["pod-a", "--no"], ["--no-headers", ":4"]),
        (EXPLAIN, ["-o", "j"], ["json", ":4"]),
        (EXPLAIN, ["--output=y"], ["--output=yaml", ":4"]),
        (EXPLAIN, ["po"], ["pod-a", "pod-b", ":4"]),
        (EXPLAIN, [], [*NAMES, ":4"]),
        (EXPLAIN, ["-n", "we"], ["web", ":4"]),
        (EXPLAIN, ["--namespace=we"], ["--namespace=web", ":4"]),
        (EXPLAIN, ["--no-headers", "w"], ["web", ":4"]),
        (EXPLAIN, ["--nonsense=w"], [":4"]),
        (EXPLAIN, ["--kubeconfig", ""], [":0"]),
        (TOP, ["-A", ""], ["nodes", "pods", ":4"]),
        (SIMULATE, ["-f", ""], [":0"]),
        (SIMULATE, [""], [":4"]),
        (SIMULATE, ["--policy", "s"], ["spread", ":4"]),
    ],
)
def test_the_last_word_is_completed(declared: list[Flag], words: list[str], expected: list[str]) -> None:
    """By the flags, by the values of one, or by names; the last line is 0 if the shell may complete files, else 4."""
    assert lines(declared, *words) == expected


async def answered(api: StubApi, folder: Path, *words: str) -> str:
    """The answer of explain's completion beside that server."""
    out = io.StringIO()
    async with serve(api) as url:
        environment = {"KUBECONFIG": kubeconfig(folder, url)}
        assert await asyncio.to_thread(answer, EXPLAIN, words, environment, out) == 0
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
    assert await asyncio.to_thread(answer, EXPLAIN, [""], missing, out) == 0
    assert out.getvalue() == ":4\n"


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
    for name, entry in PROGRAMS.items():
        module, _, function = entry.partition(":")
        text = f"#!{sys.executable}\nimport sys\nfrom gpushare.{module} import {function}\nsys.exit({function}())\n"
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [binaries["kubectl"], "__complete", *words], env=environment, capture_output=True, text=True, check=True
    )
    assert any(one.startswith(line) for one in done.stdout.splitlines()), done.stdout
