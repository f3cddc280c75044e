"""Promises of clusters.kind.engine.host."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from clusters.kind.engine.host import PACKAGES, Host, install, look, missing
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


def test_a_missing_program_that_can_be_installed_is_not_missing() -> None:
    """A program that apt-get can install is not reported as missing; it is installed when it is needed."""
    host = dataclasses.replace(GOOD, programs=frozenset({"apt-get", "ip"}))

    assert missing(host) == []
    assert host.lacks_programs


def test_host_without_the_privileged_capability_is_recognised(tmp_path: Path) -> None:
    """A host without CAP_SYS_RESOURCE is recognised; its containers get a runtime in front of runc."""
    with_it = look(tmp_path, {"PATH": "/bin"}, tree(tmp_path / "with"))
    without = look(tmp_path, {"PATH": "/bin"}, tree(tmp_path / "without", bounding=ALL & ~(1 << 24)))

    assert (with_it.lacks_sys_resource, without.lacks_sys_resource) == (False, True)


def test_both_kinds_of_cgroups_are_read(tmp_path: Path) -> None:
    """Folders of v1, the list of v2, and none."""
    one = tree(tmp_path / "one")
    two = tree(tmp_path / "two")
    (two / "sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    none = tree(tmp_path / "none")
    for folder in (none / "sys/fs/cgroup").iterdir():
        folder.rmdir()
    facts = [look(tmp_path, {"PATH": "/bin"}, root) for root in (one, two, none)]

    assert [fact.cgroup for fact in facts] == [1, 2, 0]
    assert facts[0].controllers == {"cpu", "cpuset", "memory", "pids", "devices", "freezer"}
    assert facts[1].controllers == {"cpuset", "cpu", "io", "memory", "pids"}


def test_memory_overlay_and_disk_are_read(tmp_path: Path) -> None:
    """Memory in MiB; the disk of a folder that is not there yet is its parent's."""
    host = look(tmp_path / "a" / "b", {"PATH": "/bin"}, tree(tmp_path / "root", filesystems="\text4\n"))

    assert (host.memory_mib, host.overlay) == (4096, False)
    assert host.disk_mib > 0


# A stand-in for apt-get that records its calls.
APT = """#!/bin/sh
echo "$*" >> "$APT_CALLS"
[ -x "$POLICY" ] && "$POLICY" docker start; echo "service: $?" >> "$APT_CALLS"
[ "$1" = install ] && [ -n "$APT_FAILS" ] && { echo "E: Unable to locate package" >&2; exit 100; }
exit 0
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The stand-in first on PATH."""
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin" / "apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "APT_CALLS": str(tmp_path / "calls"),
        "POLICY": str(tmp_path / "policy-rc.d"),
    }


def test_the_packages_are_installed_and_no_service_starts(environment: dict[str, str]) -> None:
    """The lists are renewed first; the policy that keeps services from starting is gone afterwards."""
    out = io.StringIO()
    install(environment, out, Path(environment["POLICY"]))
    calls = Path(environment["APT_CALLS"]).read_text().splitlines()

    assert calls[:2] == ["update", "service: 101"]
    assert calls[2:4] == [f"install --yes --no-install-recommends {' '.join(PACKAGES.values())}", "service: 101"]
    assert not Path(environment["POLICY"]).exists()
    assert "installing docker.io" in out.getvalue()


def test_a_policy_of_the_user_stays(environment: dict[str, str]) -> None:
    """To the byte."""
    policy = Path(environment["POLICY"])
    policy.write_text("#!/bin/sh\nexit 7\n")
    install(environment, io.StringIO(), policy)

    assert policy.read_text() == "#!/bin/sh\nexit 7\n"


def test_a_failed_installation_shows_the_output_of_apt(environment: dict[str, str]) -> None:
    """A failed installation shows the output of apt and removes the policy file."""
    with pytest.raises(ClusterError, match=r"(?s)ended with 100.*Unable to locate"):
        install({**environment, "APT_FAILS": "1"}, io.StringIO(), Path(environment["POLICY"]))

    assert not Path(environment["POLICY"]).exists()
