"""Promises of the engine to the machine, kept by a real dockerd on a machine within this one."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from tests.clusters.kind.engine.other_machine import DOCKER_RUN, IMAGE, TRY, Machine


def test_down_leaves_nothing(fresh: Machine) -> None:
    """No process, mount, link, rule, cgroup or setting is left, though containers ran and dockerd was killed."""
    before = fresh.traces()
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", "--network", "gpushare-kind", "-p", "8080:80", IMAGE, "sleep", "1000")
    during = fresh.traces()
    fresh.engine("down")
    assert {name for name in before if before[name] != during[name]} == set(before)
    assert fresh.traces() == before

    fresh.engine("up")
    fresh.run("docker", "run", "--detach", "--name", "one", "--network", "gpushare-kind", IMAGE, "sleep", "1000")
    fresh.run("kill", "-KILL", fresh.dockerd())
    fresh.engine("up")
    assert fresh.run("docker", "inspect", "-f", "{{.State.Running}}", "one").stdout == "false\n"
    assert fresh.run(*DOCKER_RUN, IMAGE, "cat", "/proc/1/comm").stdout == "cat\n"

    fresh.run("docker", "run", "--detach", "--network", "gpushare-kind", IMAGE, "sleep", "1000")
    fresh.run("kill", "-KILL", fresh.dockerd())
    fresh.engine("down")
    assert fresh.traces() == before
    assert list(Path(fresh.environment["GPUSHARE_CACHE"], "docker", "containers").iterdir()) == []


def test_down_touches_only_what_it_made(fresh: Machine) -> None:
    """A process that names its folder and a user's rule stay, though dockerd was killed in between."""
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", IMAGE, "sleep", "1000")
    fresh.run("iptables", "-I", "FORWARD", "-s", "192.0.2.77", "-j", "DROP")
    looking = str(fresh.run_folder / "exec/containerd/containerd.toml")
    fresh.run("sh", "-c", f"tail -F {looking} >/dev/null 2>&1 &")
    fresh.run("kill", "-KILL", fresh.dockerd())
    fresh.engine("down")
    rules = fresh.run("iptables-save").stdout

    assert "-A FORWARD -s 192.0.2.77/32 -j DROP" in rules
    assert "gpushare" not in rules.lower()
    left = fresh.traces()["processes"]
    assert isinstance(left, list)
    assert [line.split(maxsplit=1)[1] for line in left] == [f"tail -F {looking}"]


def test_an_interrupted_start_leaves_nothing(fresh: Machine) -> None:
    """Ctrl-C while dockerd starts ends in one line and the exit code of an interrupt."""
    before = fresh.traces()
    starting = fresh.start("up")
    assert starting.stderr is not None
    said = starting.stderr.readline()
    # Only the processes of this machine.
    fresh.run("pkill", "-INT", "-f", "clusters.kind.engine up")
    rest = starting.communicate()[1]

    assert "starting" in said
    assert (starting.returncode, rest.splitlines()[-1]) == (130, "docker: interrupted")
    assert fresh.traces() == before


@pytest.mark.thorough("a second dockerd of its own")
def test_another_docker_is_used_and_left_as_it_is(fresh: Machine) -> None:
    """Another Docker gets our network and rules, which ``down`` removes; its containers and its own rules stay."""
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", "--name", "theirs", IMAGE, "sleep", "1000")
    fresh.run("docker", "network", "rm", "gpushare-kind")
    for change in ("-N DOCKER-USER", "-A DOCKER-USER -j RETURN", "-I FORWARD -j DOCKER-USER"):
        fresh.run("iptables", *change.split())
    other = dataclasses.replace(fresh, run_folder=fresh.run_folder.with_name("another"))
    said = other.engine("up")
    tried = other.run(*DOCKER_RUN, "--network", "gpushare-kind", IMAGE, *TRY, good=False)
    counted = other.counted()
    down = other.engine("down")

    assert "(private)" not in said
    assert "Connection refused" in tried.stderr
    assert counted > 0
    assert "is not ours and stays; our network and rules are gone" in down
    assert "gpushare-kind" not in other.run("docker", "network", "ls").stdout
    assert other.run("docker", "inspect", "-f", "{{.State.Running}}", "theirs").stdout == "true\n"
    rules = other.run("iptables-save").stdout
    assert "GPUSHARE" not in rules
    assert "-A DOCKER-USER -j RETURN" in rules


@pytest.mark.parametrize("network", ["gpushare-kind", "bridge"])
def test_nothing_leaves_the_machine_and_what_tried_is_counted(shared: Machine, network: str) -> None:
    """A packet is rejected immediately, a name is looked up nowhere, and the way out would have taken both."""
    before, sent = shared.counted(), shared.sent_outside()
    tried = shared.run(*DOCKER_RUN, "--network", network, IMAGE, *TRY, good=False)
    counted = shared.counted()
    look_up = "exec 3<>/dev/tcp/name.example/80"
    shared.run(*DOCKER_RUN, "--network", "gpushare-kind", IMAGE, "bash", "-c", look_up, good=False)

    assert "Connection refused" in tried.stderr
    assert counted > before
    assert (shared.counted(), shared.sent_outside()) == (counted, sent)
    shared.run(*TRY, good=False)
    assert shared.sent_outside() > sent


def test_containers_ask_this_machine_nothing(shared: Machine) -> None:
    """A listener on all addresses of the machine is not for nodes."""
    address = shared.run("docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "gpushare-kind")
    listen = f"import socket, time; s = socket.create_server(('{address.stdout.strip()}', 8099)); time.sleep(100)"
    server = f'exec {sys.executable} -c "{listen}"'
    ask = f"exec 3<>/dev/tcp/{address.stdout.strip()}/8099"
    shared.run("sh", "-c", f"({server}) >/dev/null 2>&1 & echo $! > {shared.run_folder}/server")
    try:
        shared.run("bash", "-c", f"until {ask}; do sleep 0.1; done")
        within = shared.run(*DOCKER_RUN, "--network", "gpushare-kind", IMAGE, "bash", "-c", ask, good=False)
    finally:
        shared.run("kill", (shared.run_folder / "server").read_text().strip())

    assert "Connection refused" in within.stderr
