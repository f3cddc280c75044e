"""Promises of clusters.controlplane.build, with a stand-in for Go that writes small scripts in the place of programs."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.controlplane.binaries import minors, modules
from clusters.controlplane.build import ensure
from clusters.provider import ClusterError
from tests.servers import until

NEWEST = minors()[0]
# Answers `go list` with three packages; `go build` names a package and writes a file for each package it is asked for.
GO = """#!/bin/sh
echo "$* CGO_ENABLED=$CGO_ENABLED" >> "$GO_CALLS"
[ "$1" = list ] && { echo a; echo b; echo c; exit 0; }
[ -n "$GO_FAILS" ] && { echo "cannot find module" >&2; exit 1; }
echo compiled/package >&2
[ -n "$GO_WAITS" ] && exec sleep 60
while [ "$1" != -o ]; do shift; done
folder=$2; shift 2
for package in "$@"; do
  case $package in */v3) package=${package%/v3};; esac
  printf '#!/bin/sh\\n' > "$folder/${package##*/}"; chmod +x "$folder/${package##*/}"
done
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty cache, and the stand-in on PATH."""
    (tmp_path / "bin").mkdir()
    go = tmp_path / "bin" / "go"
    go.write_text(GO)
    go.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "GPUSHARE_CACHE": str(tmp_path / "cache"),
        "GO_CALLS": str(tmp_path / "calls"),
    }


def calls(environment: dict[str, str]) -> list[str]:
    path = Path(environment["GO_CALLS"])
    return path.read_text().splitlines() if path.exists() else []


def test_only_what_is_missing_is_built(environment: dict[str, str], tmp_path: Path) -> None:
    """The folder of envtest lacks the scheduler and the controllers, so only these are built."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for program in ("kube-apiserver", "kubectl", "etcd"):
        (assets / program).write_text(f"#!/bin/sh\necho v{NEWEST}.1\n")
        (assets / program).chmod(0o755)
    ensure(NEWEST, environment, assets, io.StringIO())
    built = calls(environment)[-1]

    assert "cmd/kube-scheduler" in built
    assert "cmd/kube-apiserver" not in built
    assert len(calls(environment)) == 2


def test_without_go_it_says_what_to_do(environment: dict[str, str]) -> None:
    """The error without Go names the missing programs and the two ways to get them."""
    with pytest.raises(ClusterError, match=r"kube-apiserver.*no `go` on PATH.*KUBEBUILDER_ASSETS"):
        ensure(NEWEST, {**environment, "PATH": "/nowhere"}, None, io.StringIO())


def test_failed_build_shows_gos_error_and_leaves_no_half(environment: dict[str, str]) -> None:
    """The next call starts over."""
    with pytest.raises(ClusterError, match="cannot find module"):
        ensure(NEWEST, {**environment, "GO_FAILS": "1"}, None, io.StringIO())
    kubernetes = modules(NEWEST)[0]
    cache = Path(environment["GPUSHARE_CACHE"]) / "control-plane"

    assert list(kubernetes.cache(cache).iterdir()) == []
    assert [path for path in cache.iterdir() if path.name.startswith(".building")] == []


def test_two_builds_at_once_build_once(environment: dict[str, str]) -> None:
    """The second waits for the first."""
    command = [sys.executable, "-m", "clusters.controlplane.build", "--kubernetes", NEWEST]
    both = [subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE) for _ in range(2)]
    for one in both:
        one.communicate()

    assert [one.returncode for one in both] == [0, 0]
    assert len([call for call in calls(environment) if call.startswith("build")]) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_build_ends_go_and_leaves_nothing_half(environment: dict[str, str], number: int) -> None:
    """One line, no traceback; the next call starts over."""
    command = [sys.executable, "-m", "clusters.controlplane.build", "--kubernetes", NEWEST]
    waiting = {**environment, "GO_WAITS": "1"}
    one = await asyncio.create_subprocess_exec(*command, env={**os.environ, **waiting}, stderr=asyncio.subprocess.PIPE)
    await until(lambda: any(call.startswith("build") for call in calls(environment)))
    one.send_signal(number)
    # Go holds the other end of standard error, too: this ends when it has ended.
    said = (await one.communicate())[1].decode()
    cache = Path(environment["GPUSHARE_CACHE"]) / "control-plane"

    assert one.returncode == 128 + number
    assert said.splitlines()[-1] == "control-plane: interrupted"
    assert "Traceback" not in said
    assert [path for path in cache.iterdir() if path.name.startswith(".building")] == []
