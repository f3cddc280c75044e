"""Promises of the engine as a whole, kept by a real dockerd on a machine within this one."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from clusters.kind.engine.engine import engine_environment, find
from clusters.kind.engine.place import place_of
from clusters.provider import ClusterError
from tests.clusters.checkouts import copy_checkout
from tests.clusters.kind.engine.other_machine import DOCKER_RUN, IMAGE, ROOT, TRY, Machine


def test_a_second_up_uses_what_is_there(shared: Machine) -> None:
    """A second ``up`` keeps the same dockerd, and its counters go on."""
    pid, counted = shared.dockerd(), shared.counted()
    said = shared.engine("up")

    assert "are ready" in said
    assert "starting" not in said
    assert (shared.dockerd(), shared.counted()) == (pid, counted)


def test_clients_get_an_environment_in_which_all_is_found(shared: Machine) -> None:
    """Docker's address, kind on PATH, and the network of its nodes."""
    found = find(shared.environment, place_of(shared.environment, shared.run_folder))
    assert found is not None

    assert found.private
    assert engine_environment(found.environment)["KIND_EXPERIMENTAL_DOCKER_NETWORK"] == "gpushare-kind"


def test_a_missing_docker_is_a_cluster_error(tmp_path: Path) -> None:
    """The error without a Docker is a ClusterError, not a traceback."""
    with pytest.raises(ClusterError, match="no Docker answers"):
        engine_environment({"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{tmp_path}/none"})


def test_down_leaves_nothing(fresh: Machine) -> None:
    """No process, mount, link, rule, cgroup or setting, though containers were running."""
    before = fresh.traces()
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", "--network", "gpushare-kind", "-p", "8080:80", IMAGE, "sleep", "100")
    during = fresh.traces()
    fresh.engine("down")

    assert {name for name in before if before[name] != during[name]} == set(before)
    assert fresh.traces() == before


def test_a_killed_dockerd_is_recognised_and_restarted(fresh: Machine) -> None:
    """After the kill of dockerd its containers have ended, and new ones run."""
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", "--name", "one", IMAGE, "sleep", "1000")
    fresh.run("kill", "-KILL", fresh.dockerd())
    fresh.engine("up")

    assert fresh.run("docker", "inspect", "-f", "{{.State.Running}}", "one").stdout == "false\n"
    assert fresh.run(*DOCKER_RUN, IMAGE, "cat", "/proc/1/comm").stdout == "cat\n"


def test_down_after_a_kill_leaves_nothing(fresh: Machine) -> None:
    """After the kill of dockerd ``down`` also removes the container that still ran, its shim and its mounts."""
    before = fresh.traces()
    fresh.engine("up")
    fresh.load_shell()
    fresh.run("docker", "run", "--detach", "--network", "gpushare-kind", IMAGE, "sleep", "1000")
    fresh.run("kill", "-KILL", fresh.dockerd())
    fresh.engine("down")

    assert fresh.traces() == before
    assert list(Path(fresh.environment["GPUSHARE_CACHE"], "docker", "containers").iterdir()) == []


@pytest.mark.exhaustive("two checkouts on the real packet filter; the uses are proved in test_uses.py")
def test_two_checkouts_share_it_and_each_ends_alone(fresh: Machine, tmp_path: Path) -> None:
    """The first to call ``down`` leaves the other's containers running; the last one ends it. Then the reverse."""
    other = dataclasses.replace(fresh, checkout=tmp_path / "other")
    copy_checkout(ROOT, other.checkout)
    before = fresh.traces()
    for first, last in ((fresh, other), (other, fresh)):
        first.engine("up")
        last.engine("up")
        last.load_shell()
        last.run("docker", "run", "--detach", "--name", "lasts", "--network", "gpushare-kind", IMAGE, "sleep", "1000")
        said = first.engine("down")

        assert f"it stays for the checkout {last.checkout}" in said
        assert last.run("docker", "inspect", "-f", "{{.State.Running}}", "lasts").stdout == "true\n"
        assert "packets" in last.engine("status")
        last.engine("down")
        assert fresh.traces() == before


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
    """Ctrl-C while dockerd starts: one line, the exit code of an interrupt."""
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


def test_a_network_of_that_name_on_another_bridge_is_refused(shared: Machine) -> None:
    """Our rules would not see its packets."""
    shared.run("docker", "network", "rm", "gpushare-kind")
    shared.run("docker", "network", "create", "gpushare-kind")
    try:
        said = shared.engine("up", good=False)
    finally:
        shared.run("docker", "network", "rm", "gpushare-kind")
        shared.engine("up")

    assert "docker network rm gpushare-kind" in said
    assert "ready" not in said


def test_down_where_nothing_is_up_says_so(fresh: Machine) -> None:
    """If no Docker is up, ``down`` reports so and raises no error."""
    assert "no private Docker is up" in fresh.engine("down")
