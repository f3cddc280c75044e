"""``python -m load.real_scheduler`` as a person calls it: a real control plane, a real scheduler, our extender, a few pods."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.controlplane.binaries import KWOK, cached, kwok, locate, minors
from clusters.provider import ClusterError
from load.real_scheduler.scheduler_figures import AGREES, WITH, WITHOUT, Turn, share, text

ROOT = Path(__file__).parents[3]


def run(*argv: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, ended."""
    command = [sys.executable, "-m", "load.real_scheduler", *map(str, argv)]
    own = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=own, timeout=500, check=False)


@pytest.mark.thorough("a real control plane binds pods three times")
def test_pods_that_come_are_bound_with_and_without_the_extender(tmp_path: Path) -> None:
    """Each turn binds all; the scheduler's own figures, the extender's and each program's time are printed."""
    try:
        locate(minors()[0], os.environ)
    except ClusterError as error:
        pytest.skip(str(error))
    output = tmp_path / "found.json"
    # With kwok if it is built: no test run waits minutes for this test.
    flags = ["--kwok"] if KWOK in cached(kwok(), os.environ) else []
    done = run("--nodes", 5, "--pods", 12, "--rate", 20, "--turns", 1, "-o", output, *flags)

    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    alone, *agreeing, ours = found["turns"]
    compilers = any(map(shutil.which, ("cc", "gcc", "clang")))
    assert [turn["kind"] for turn in found["turns"]] == [WITHOUT, *[AGREES][:compilers], WITH]
    assert {len(turn["waited"]) for turn in found["turns"]} == {12}
    for turn in agreeing:
        assert turn["spent"]["scheduler: attempt scheduled"]["count"] == 12
        assert turn["cpu_seconds"]["agreeing extender"] >= 0
        assert "gpushare bind" not in turn["spent"]
    assert ours["spent"]["gpushare bind"]["count"] == 12
    assert ours["spent"]["scheduler: attempt scheduled"]["count"] == 12
    assert "gpushare bind" not in alone["spent"]
    assert {"kube-scheduler", "kube-apiserver", "gpushare-extender"} <= ours["cpu_seconds"].keys()
    assert "created until bound" in done.stdout


@pytest.mark.parametrize(
    ("argv", "assets", "code", "says"),
    [(["--pods", 1], "", 2, "there must be 2 pods at least"), ([], "none", 1, "none: not a folder")],
)
def test_what_cannot_be_is_one_clear_line(argv: list[object], assets: str, code: int, says: str) -> None:
    """On stderr, with its exit code."""
    done = run(*argv, KUBEBUILDER_ASSETS=assets)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr.splitlines()[-1]


def test_the_share_is_of_medians_beside_the_best_possible() -> None:
    """One slow turn of three does not decide; what an extender that only agrees reaches is printed, or that it was left out."""
    turns = [Turn(WITHOUT, rate, {}) for rate in (10.0, 100.0, 110.0)] + [Turn(WITH, 50.0, {})]
    assert share(turns) == 0.5
    said = text(turns, "5 pods on 2 nodes", 5)
    assert said.startswith("5 pods on 2 nodes: gpushare reaches 50% of")
    assert "left out: no cc" in said
    said = text([*turns, Turn(AGREES, 70.0, {})], "5 pods on 2 nodes", 5)
    assert "binding to the scheduler, reaches 70%" in said
