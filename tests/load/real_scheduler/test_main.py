"""``python -m load.real_scheduler`` as a person calls it: a real control plane, a real scheduler, our extender, a few pods."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from clusters.controlplane.binaries import KWOK, cached, kwok, locate, minors
from clusters.provider import ClusterError
from load.real_scheduler.scheduler_figures import (
    AGREES,
    PRIORITIZED,
    WITH,
    WITHOUT,
    Spent,
    Turn,
    Workload,
    share,
    spent,
    text,
)

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
    alone, *agreeing, ours, prioritized = found["turns"]
    compilers = any(map(shutil.which, ("cc", "gcc", "clang")))
    assert [turn["kind"] for turn in found["turns"]] == [WITHOUT, *[AGREES][:compilers], WITH, PRIORITIZED]
    assert {len(turn["waited"]) for turn in found["turns"]} == {12}
    for turn in agreeing:
        assert turn["spent"]["scheduler: attempt scheduled"]["count"] == 12
        assert turn["cpu_seconds"]["agreeing extender"] >= 0
        assert "gpushare bind" not in turn["spent"]
    for turn in (ours, prioritized):
        assert turn["spent"]["gpushare bind"]["count"] == 12
        assert turn["spent"]["scheduler: attempt scheduled"]["count"] == 12
    assert (ours["nodes"], "gpushare prioritize" in ours["spent"]) == (1, False)
    assert "gpushare bind" not in alone["spent"]
    assert {"kube-scheduler", "kube-apiserver", "gpushare-extender"} <= ours["cpu_seconds"].keys()
    assert "created until bound" in done.stdout


def test_the_share_is_of_medians_beside_the_best_possible() -> None:
    """One slow turn of three does not decide; what an extender that only agrees reaches is printed, or that it was left out."""
    turns = [Turn(WITHOUT, rate, {}) for rate in (10.0, 100.0, 110.0)] + [Turn(WITH, 50.0, {})]
    assert share(turns) == 0.5
    said = text(turns, "5 pods on 2 nodes", Workload(5))
    assert said.startswith("5 pods on 2 nodes: gpushare reaches 50% of")
    assert "there is no cc" in said
    said = text([*turns, Turn(AGREES, 70.0, {})], "5 pods on 2 nodes", Workload(5))
    assert "binding to the scheduler, reaches 70%" in said


def page(name: str, label: str, times: dict[str, list[float]]) -> str:
    """As a program shows it, by the official client."""
    registry = CollectorRegistry()
    histogram = Histogram(name, "time", [label] if label else [], buckets=(0.1, 0.2, 0.4), registry=registry)
    Histogram("something_else_seconds", "time", registry=registry).observe(7)
    for value, seconds in times.items():
        for one in seconds:
            (histogram.labels(value) if label else histogram).observe(one)
    return generate_latest(registry).decode()


def test_times_are_read_from_the_pages_of_programs() -> None:
    """Each by its label, if it has one; the rest of a page counts for no time.

    Percentiles are evenly spread within their bucket; of the last bucket, which has no end, its beginning.
    """
    ours = page("gpushare_extender_request_duration_seconds", "verb", {"filter": [0.15] * 4, "bind": [3.0]})
    about: Any = pytest.approx
    assert spent(ours) == {
        "gpushare filter": Spent(4, about(0.15), about(0.15), about(0.199)),
        "gpushare bind": Spent(1, about(3.0), 0.4, 0.4),
    }
    attempts = page("scheduler_scheduling_attempt_duration_seconds", "result", {"scheduled": [0.05]})
    algorithm = page("scheduler_scheduling_algorithm_duration_seconds", "", {"": [0.3, 0.3]})
    plugins = page(
        "scheduler_framework_extension_point_duration_seconds", "extension_point", {"Bind": [0.1], "Score": []}
    )
    assert {name: one.count for name, one in spent(attempts + algorithm + plugins).items()} == {
        "scheduler: attempt scheduled": 1,
        "scheduler: choosing a node": 2,
        "scheduler: plugins Bind": 1,
    }
    assert spent("") == {}
