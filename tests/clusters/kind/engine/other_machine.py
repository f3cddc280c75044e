"""A machine within this one for a private dockerd: its own processes, mounts, and network with a way out that leads nowhere.

It ends with the test process, also with one that was killed: its first process reads from a pipe that the test holds, and with
the first process of such a machine the kernel ends them all.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.kind.engine.host import look, missing

ROOT: Final = Path(__file__).parents[4]
OUTSIDE: Final = "198.51.100.1"
"""An address that no machine has (RFC 5737), by way of the default route."""
IMAGE: Final = "gs-shell"
_TOOLS: Final = ("unshare", "nsenter", "sysctl", "ps", "pkill", "ldd", "bash")
# A device that takes packets to the outside, and counts them. IPv6's own announcements are switched off.
_WAY_OUT: Final = """
ip link set lo up
sysctl -qw net.ipv4.ip_forward=0
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link add outside type veth peer name beyond
ip link set beyond up
ip link set outside up
ip addr add 192.0.2.2/24 dev outside
ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev outside
ip route add default via 192.0.2.1
"""
DOCKER_RUN: Final = ("docker", "run", "--rm")
TRY: Final = ("timeout", "3", "bash", "-c", f"exec 3<>/dev/tcp/{OUTSIDE}/80")
"""Ask something outside, in a container or on the machine: a packet that is lost is not answered for minutes."""
# The command of its first process.
_FIRST: Final = "echo ready; read"


@dataclass(frozen=True)
class Machine:
    """Commands run in it, as root, with the environment of one engine."""

    holder: int
    run_folder: Path
    environment: dict[str, str]

    def run(self, *argv: str, good: bool = True) -> subprocess.CompletedProcess[str]:
        """Run it in there; with ``good`` it must succeed."""
        done = subprocess.run(
            [*self._enter(), *argv], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not good, f"{argv} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    def engine(self, command: str, good: bool = True) -> str:
        """The output of the engine's command."""
        done = self.run(*self._engine(command), good=good)
        return done.stdout + done.stderr

    def start(self, command: str) -> subprocess.Popen[str]:
        argv = [*self._enter(), *self._engine(command)]
        return subprocess.Popen(argv, env=self.environment, stderr=subprocess.PIPE, text=True)

    def _enter(self) -> list[str]:
        spaces = Path(f"/proc/{self.holder}/ns")
        named = [f"--net={spaces / 'net'}", f"--mount={spaces / 'mnt'}", f"--pid={spaces / 'pid_for_children'}"]
        return ["nsenter", *named, f"--wd={ROOT}"]

    def _engine(self, command: str) -> list[str]:
        return [sys.executable, "-m", "clusters.kind.engine", command, "--run-folder", str(self.run_folder)]

    def load_shell(self) -> None:
        """An image with a few programs of this machine."""
        entered = [*self._enter(), "docker", "import", "-", IMAGE]
        subprocess.run(entered, env=self.environment, input=_shell_image(), stdout=subprocess.DEVNULL, check=True)

    def counted(self) -> int:
        """The engine's count of packets rejected on their way out."""
        (line,) = [line for line in self.engine("status").splitlines() if line.startswith("packets")]
        return int(line.rpartition(" ")[2])

    def sent_outside(self) -> int:
        """How many packets the way out took."""
        (link,) = json.loads(self.run("ip", "-json", "-statistics", "link", "show", "outside").stdout)
        packets: int = link["stats64"]["tx"]["packets"]
        return packets

    def dockerd(self) -> str:
        return (self.run_folder / "docker.pid").read_text()

    def traces(self) -> dict[str, object]:
        """All possible leftovers: empty, or as on a machine on which nothing ever ran."""
        mounts = Path(f"/proc/{self.holder}/mountinfo").read_text()
        cgroups = [*Path("/sys/fs/cgroup").glob(f"*/{self.run_folder.name}*")]
        return {
            "processes": self._processes(),
            "mounts": [line for line in mounts.splitlines() if str(self.run_folder.parent) in line],
            "links": sorted(re.findall(r"^\d+: ([^:@]+)", self.run("ip", "-o", "link").stdout, re.MULTILINE)),
            "rules": [_rules(self.run(f"{name}-save").stdout) for name in ("iptables", "ip6tables")],
            "forwarding": self.run("cat", "/proc/sys/net/ipv4/ip_forward").stdout.strip(),
            "cgroups": cgroups,
            "folder": self.run_folder.exists(),
        }

    def _processes(self) -> list[str]:
        """All but the first, the one that looks, and those that have ended and were not asked how."""
        lines = self.run("ps", "-e", "-o", "stat=,args=").stdout.splitlines()
        return [line for line in lines if not line.startswith("Z") and "ps -e" not in line and _FIRST not in line]


def reason_against(folder: Path, environment: dict[str, str]) -> str | None:
    """Why no such machine can be had here, in one line, or None."""
    if os.geteuid() != 0:
        return "a machine within this one needs root"
    host = look(folder, environment)
    absent = [*missing(host), *(f"no `{tool}` on PATH" for tool in _TOOLS if shutil.which(tool) is None)]
    if host.lacks_programs:
        absent.append("dockerd is not installed: `make kind` installs it")
    return "; ".join(absent) or None


@contextmanager
def machine(folder: Path, environment: dict[str, str]) -> Iterator[Machine]:
    """Such a machine while inside; what runs in it is ended afterwards."""
    run_folder = folder / f"run-{folder.name}"
    own = {
        **environment,
        "GPUSHARE_CACHE": str(folder / "cache"),
        # A Docker that answers on this machine is not asked.
        "DOCKER_HOST": f"unix://{run_folder}/docker.sock",
    }
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "bash", "-c", _FIRST]
    with subprocess.Popen(unshare, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        made = Machine(holder.pid, run_folder, own)
        try:
            for line in _WAY_OUT.strip().splitlines():
                made.run(*line.split())
            yield made
        finally:
            if run_folder.exists():
                made.engine("down", good=False)


def _rules(saved: str) -> list[str]:
    """The rules, the chains that are not the kernel's own, and the policies that are not its default."""
    lines = [re.sub(r" \[\d+:\d+\]$", "", line) for line in saved.splitlines() if line[:1] in {":", "-"}]
    return [line for line in lines if not line.endswith(" ACCEPT") or line.startswith("-")]


def _shell_image() -> bytes:
    programs = {f"/bin/{name}": shutil.which(name) for name in ("bash", "cat", "sleep", "timeout")}
    asked = subprocess.run(["ldd", *filter(None, programs.values())], capture_output=True, text=True, check=True).stdout
    files = {**programs, **{path: path for path in re.findall(r"/[^ :]+\.so[^ :]*(?= \()", asked)}}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", dereference=True) as archive:
        for name, source in files.items():
            assert source is not None
            information = tarfile.TarInfo(name.lstrip("/"))
            content = Path(source).read_bytes()
            information.size, information.mode = len(content), 0o755
            archive.addfile(information, io.BytesIO(content))
    return stream.getvalue()
