"""Promises of clusters.kind.engine.host and network, and of the program kind there."""

from __future__ import annotations

import dataclasses
import io
import ipaddress
import os
from pathlib import Path

import pytest

from clusters.kind.engine import network
from clusters.kind.engine.engine import fits
from clusters.kind.engine.host import PACKAGES, Host, install, look, missing
from clusters.kind.engine.network import choose_subnet
from clusters.provider import ClusterError

ALL = 0x1FFFFFFFFFF
GOOD = Host(
    root=True,
    bounding=ALL,
    overlay=True,
    cgroup=2,
    controllers=frozenset({"cpu", "cpuset", "memory", "pids", "io"}),
    programs=frozenset({"dockerd", "containerd", "runc", "iptables", "ip"}),
    memory_mib=8192,
    disk_mib=20000,
)


def tree(root: Path, *, bounding: int = ALL, filesystems: str = "nodev\toverlay\n\text4\n") -> Path:
    """A host's ``proc`` and ``sys``, cgroup v1."""
    for folder in ("proc/self", "sys/fs/cgroup"):
        (root / folder).mkdir(parents=True)
    (root / "proc/self/status").write_text(f"Name:\tx\nCapEff:\t0\nCapBnd:\t{bounding:016x}\n")
    (root / "proc/filesystems").write_text(filesystems)
    (root / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4194304 kB\n")
    for controller in ("cpu", "cpuset", "memory", "pids", "devices", "freezer", "systemd"):
        (root / "sys/fs/cgroup" / controller).mkdir()
    return root


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bounding": ALL & ~(1 << 21)}, "CAP_SYS_ADMIN"),
        ({"bounding": ALL & ~(1 << 12)}, "CAP_NET_ADMIN"),
        ({"programs": GOOD.programs - {"iptables"}}, "apt-get install iptables"),
        ({"programs": GOOD.programs - {"dockerd"}}, "apt-get install docker.io"),
        ({"cgroup": 0, "controllers": frozenset()}, "/sys/fs/cgroup"),
        ({"controllers": GOOD.controllers - {"memory"}}, "cgroup v2 lacks memory"),
        ({"cgroup": 1, "controllers": GOOD.controllers | {"devices"}}, "cgroup v1 lacks freezer"),
        ({"memory_mib": 900}, "900 MiB of memory"),
        ({"disk_mib": 900}, "GPUSHARE_CACHE"),
        ({"root": False}, "not root"),
    ],
)
def test_what_is_missing_is_one_line_that_says_what_to_do(change: dict[str, object], says: str) -> None:
    """One thing, one line."""
    (line,) = missing(dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]

    assert says in line
    assert ":" in line
    # A program that apt-get can install is installed when it is needed.
    assert missing(dataclasses.replace(GOOD, programs=frozenset({"apt-get", "ip"}))) == []


def test_a_hosts_facts_are_read(tmp_path: Path) -> None:
    """Cgroups of both versions and none, memory, and a lack of CAP_SYS_RESOURCE are read from the kernel's files."""
    one = tree(tmp_path / "one", filesystems="\text4\n")
    two = tree(tmp_path / "two", bounding=ALL & ~(1 << 24))
    (two / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    none = tree(tmp_path / "none")
    for folder in (none / "sys/fs/cgroup").iterdir():
        folder.rmdir()
    first, second, third = (look(tmp_path / "not" / "there", {"PATH": "/bin"}, root) for root in (one, two, none))

    assert [fact.cgroup for fact in (first, second, third)] == [1, 2, 0]
    assert first.controllers == {"cpu", "cpuset", "memory", "pids", "devices", "freezer"}
    assert second.controllers == {"cpuset", "cpu", "io", "memory", "pids"}
    assert [fact.lacks_sys_resource for fact in (first, second)] == [False, True]
    assert (first.memory_mib, first.overlay, second.overlay) == (4096, False, True)


# A stand-in for apt-get that records its calls, and whether a service may start.
APT = """#!/bin/sh
echo "$*" >> "$APT_CALLS"
[ -x "$POLICY" ] && "$POLICY" docker start; echo "service: $?" >> "$APT_CALLS"
exit 0
"""


@pytest.mark.parametrize(("users", "started"), [(None, 101), ("#!/bin/sh\nexit 7\n", 7)], ids=["none", "a user's"])
def test_packages_are_installed_and_no_service_starts(tmp_path: Path, users: str | None, started: int) -> None:
    """The policy that keeps services from starting is gone afterwards, and one of the user stays as it is."""
    apt, calls, policy = tmp_path / "apt-get", tmp_path / "calls", tmp_path / "policy-rc.d"
    apt.write_text(APT)
    apt.chmod(0o755)
    if users is not None:
        policy.write_text(users)
        policy.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "APT_CALLS": str(calls), "POLICY": str(policy)}
    install(environment, io.StringIO(), policy)
    install_call = f"install --yes --no-install-recommends {' '.join(PACKAGES.values())}"

    assert calls.read_text().splitlines()[:4] == ["update", f"service: {started}", install_call, f"service: {started}"]
    assert (policy.read_text() if policy.exists() else None) == users


@pytest.mark.parametrize(
    ("version", "answer"),
    [("0.33.0", True), ("v0.33.4", True), ("0.34.0-alpha", True), ("0.32.9", False), ("1.33.0", False), ("", False)],
)
def test_the_pinned_minor_or_a_newer_one_fits(version: str, *, answer: bool) -> None:
    """An older one cannot start the nodes of a newer Kubernetes."""
    assert fits(version, "v0.33.0") is answer


# Docker's answers about a network that a user made under our name.
DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$2" in
  ls) echo gpushare-kind ;;
  inspect) echo '[{"Options": {"com.docker.network.bridge.name": "br-users"}}]' ;;
esac
"""


def test_a_range_that_is_routed_is_passed_over() -> None:
    """A range is taken if it is routed in whole or in part; if all are, the error names the reason."""
    candidates = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "172.28.0.0/16", "10.4.0.0/16"]
    routes = ["default", "10.1.0.0/16", "10.2.3.4", "10.3.128.0/17", "172.16.0.0/12"]

    assert choose_subnet(routes, candidates) == ipaddress.IPv4Network("10.4.0.0/16")
    with pytest.raises(ClusterError, match="routed elsewhere"):
        choose_subnet(["0.0.0.0/0"])


def test_a_network_on_another_bridge_is_neither_used_nor_removed(tmp_path: Path) -> None:
    """A network with our name on another bridge is another's: our rules would not see its packets."""
    program, calls = tmp_path / "docker", tmp_path / "calls"
    program.write_text(DOCKER)
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}

    with pytest.raises(ClusterError, match="docker network rm gpushare-kind"):
        network.ensure(environment)
    assert network.remove(environment)
    assert "network rm" not in calls.read_text()
