"""Promises of clusters.kind.engine.host, and of the program kind there."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from clusters.kind.engine.host import PACKAGES, Host, install, look, missing
from clusters.kind.engine.kind_program import fits

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
