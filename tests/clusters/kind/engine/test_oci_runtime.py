"""Promises of clusters.kind.engine.oci_runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.kind.engine import oci_runtime
from clusters.kind.engine.oci_runtime import DROPPED, asked_in, without
from tests.clusters.kind.engine.other_machine import DOCKER_RUN, IMAGE, Machine

SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")


def process(*capabilities: str) -> dict[str, Any]:
    """An OCI process that asks for these in every set, and names the capability elsewhere, too."""
    return {
        "args": ["echo", DROPPED],
        "env": [f"WHAT={DROPPED}"],
        "capabilities": {name: list(capabilities) for name in SETS},
    }


def run(*arguments: str, cwd: Path) -> str:
    """The output of a stand-in for runc, which prints its arguments, when it is started through the runtime."""
    echo = cwd / "runc"
    echo.write_text('#!/bin/sh\necho "$@"\n')
    echo.chmod(0o755)
    argv = [sys.executable, "-I", "-S", oci_runtime.__file__, str(echo), *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("what", [None, {"args": ["sh"]}, {"capabilities": None}, {"capabilities": {"bounding": None}}])
def test_what_asks_for_nothing_stays_as_it_is(what: object) -> None:
    """A process without capabilities, and a bundle without a process."""
    assert without(what) == what


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["--root", "/r", "create", "--bundle", "/b", "--pid-file", "/p", "id"], "/b/config.json"),
        (["create", "--bundle=/b", "id"], "/b/config.json"),
        (["run", "-b", "/b", "id"], "/b/config.json"),
        (["run", "id"], "./config.json"),
        (["exec", "--process", "/tmp/p", "--detach", "id"], "/tmp/p"),
        (["exec", "-p", "/tmp/p", "id"], "/tmp/p"),
        (["exec", "id", "sh"], None),
        (["state", "id"], None),
        (["--version"], None),
    ],
)
def test_each_call_that_asks_for_capabilities_names_the_file(arguments: list[str], file: str | None) -> None:
    """The file is found in calls of containerd's shim to runc and in those that a person types."""
    assert asked_in(arguments) == file


def test_a_bundle_is_rewritten_before_runc_sees_it(tmp_path: Path) -> None:
    """The wrapper changes only the capability sets of the process and passes its arguments to runc."""
    config = {"ociVersion": "1.0.2", "process": process("CAP_KILL", DROPPED), "root": {"path": "rootfs"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = run("--log", "l", "create", "--bundle", str(tmp_path), "id", cwd=tmp_path)

    assert json.loads((tmp_path / "config.json").read_text()) == {**config, "process": process("CAP_KILL")}
    assert said == f"--log l create --bundle {tmp_path} id"


def test_the_process_of_an_exec_is_rewritten(tmp_path: Path) -> None:
    """`docker exec --privileged` asks again."""
    (tmp_path / "process").write_text(json.dumps(process("CAP_KILL", DROPPED)))
    run("exec", "--process", str(tmp_path / "process"), "id", cwd=tmp_path)

    assert json.loads((tmp_path / "process").read_text()) == process("CAP_KILL")


def test_a_file_that_does_not_ask_for_it_is_not_touched(tmp_path: Path) -> None:
    """To the byte."""
    text = '{ "process":   {"args":["sh"]} }\n'
    (tmp_path / "config.json").write_text(text)
    run("create", "--bundle", str(tmp_path), "id", cwd=tmp_path)

    assert (tmp_path / "config.json").read_text() == text


def test_the_exit_code_is_runcs(tmp_path: Path) -> None:
    """The runtime becomes runc."""
    (tmp_path / "runc").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "runc").chmod(0o755)
    argv = [sys.executable, "-I", "-S", oci_runtime.__file__, str(tmp_path / "runc"), "state", "id"]

    assert subprocess.run(argv, check=False).returncode == 7


def test_privileged_container_runs_without_the_hosts_capability(shared: Machine) -> None:
    """A privileged container starts without CAP_SYS_RESOURCE if the host lacks it; runc alone refuses to start it."""
    limits = shared.run(*DOCKER_RUN, "--privileged", IMAGE, "cat", "/proc/self/status").stdout
    refused = shared.run(
        *DOCKER_RUN, "--privileged", "--runtime", "runc", IMAGE, "cat", "/proc/self/status", good=False
    )
    effective = int(next(line for line in limits.splitlines() if line.startswith("CapEff")).split()[1], 16)

    assert effective >> 21 & 1 == 1
    assert effective >> 24 & 1 == 0
    assert "unable to apply caps" in refused.stderr


def test_a_privileged_exec_runs_there_too(shared: Machine) -> None:
    """A privileged exec works in such a container; kind looks into its nodes by privileged execs."""
    shared.run("docker", "run", "--detach", "--name", "one", "--privileged", IMAGE, "sleep", "100")
    try:
        assert shared.run("docker", "exec", "--privileged", "one", "cat", "/proc/1/comm").stdout == "sleep\n"
    finally:
        shared.run("docker", "rm", "--force", "one")
