"""Start and end a dockerd of our own: beside whatever else the host runs, and without leaving anything behind."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from clusters.kind.engine import leftovers, oci_runtime
from clusters.kind.engine.docker_client import DEFAULT_BRIDGE, Place, program, server_version, with_system_path
from clusters.kind.engine.host import Host
from clusters.kind.engine.network import choose_subnet, ensure_bridge, host_routes
from clusters.processes.commands import Progress
from clusters.provider import ClusterError

COMMAND: Final = "docker"
# A cold start on a busy machine with thousands of layers in its data root.
_START_SECONDS: Final = 120.0
# It gives each container of its time; we have removed them before.
_END_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
# Lines of its log that are shown when it does not start.
_TAIL: Final = 15


def running(place: Place) -> int | None:
    """The pid of the private dockerd, or None.

    The file of its pid outlives a SIGKILL, and the number may then be another process's: what runs there must be a dockerd with our
    folder.
    """
    try:
        pid = int(place.pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if _is_ours(place, pid) else None


def _is_ours(place: Place, pid: int) -> bool:
    return leftovers.is_running(pid, "dockerd", f"--exec-root={place.exec_root}")


def start(place: Place, host: Host, environment: Mapping[str, str], out: TextIO) -> None:
    """Start it and wait until it answers. It goes on when we end. Raises ClusterError with the end of its log."""
    dockerd = program("dockerd", environment)
    if dockerd is None:
        raise ClusterError("there is no `dockerd`; install it (Debian: apt-get install docker.io)")
    place.run.mkdir(mode=0o711, parents=True, exist_ok=True)
    place.data.mkdir(mode=0o711, parents=True, exist_ok=True)
    # Left behind by a dockerd that was killed; it would refuse to start if another process has that pid now.
    place.pid_file.unlink(missing_ok=True)
    subnet = choose_subnet(host_routes())
    # Docker's default bridge, under a name of ours: docker0 may be another Docker's.
    ensure_bridge(DEFAULT_BRIDGE, ipaddress.IPv4Interface(f"{subnet[1]}/24"))
    # It joins its cgroup before it is dockerd, so that nothing that it starts is outside.
    join = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(leftovers.make_group(place.daemon_cgroup, host.cgroup))]
    argv = [*join, str(dockerd), *_options(place, host, subnet, environment)]
    with place.log.open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=with_system_path(environment),
            # Ctrl-C on the terminal that started it is not meant for it.
            start_new_session=True,
        )
    try:
        with Progress(COMMAND, f"starting {dockerd}", out) as progress:
            _wait(process, place, environment, progress)
            version = server_version({**environment, "DOCKER_HOST": place.address})
            progress.line(f"docker {version} answers at {place.address}")
    except BaseException:
        # Ctrl-C as well; it may not have written its pid yet.
        leftovers.end(process.pid, lambda: process.poll() is None, _END_SECONDS)
        raise


def end(place: Place) -> None:
    """End it, if it runs; kill it if it does not end."""
    pid = running(place)
    if pid is not None:
        leftovers.end(pid, lambda: _is_ours(place, pid), _END_SECONDS)


def _wait(process: subprocess.Popen[bytes], place: Place, environment: Mapping[str, str], progress: Progress) -> None:
    deadline = time.monotonic() + _START_SECONDS
    progress.detail = "waiting for its answer"
    while server_version({**environment, "DOCKER_HOST": place.address}) is None:
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            how = f"ended with {process.returncode}" if ended else f"did not answer in {_START_SECONDS:.0f} s"
            tail = "\n".join(place.log.read_text(errors="replace").splitlines()[-_TAIL:])
            raise ClusterError(f"dockerd {how}; the end of {place.log}:\n{tail}")
        time.sleep(_LOOK_SECONDS)


def _options(place: Place, host: Host, subnet: ipaddress.IPv4Network, environment: Mapping[str, str]) -> list[str]:
    # In the place of the distribution's, which may say anything.
    empty = place.run / "daemon.json"
    empty.write_text("{}\n")
    options = [
        f"--host={place.address}",
        f"--data-root={place.data}",
        f"--exec-root={place.exec_root}",
        f"--pidfile={place.pid_file}",
        f"--config-file={empty}",
        f"--storage-driver={'overlay2' if host.overlay else 'vfs'}",
        f"--bridge={DEFAULT_BRIDGE}",
        f"--default-address-pool=base={subnet},size=24",
        # By this driver a parent is a path, whatever runs this host; systemd's wants slices.
        "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--cgroup-parent=/{place.cgroup}",
        # It writes no rules: those that its containers need are ours (egress), and ports are published by its proxy.
        "--iptables=false",
        "--ip6tables=false",
        # Traffic of containers must not leave the machine: it gets no address to leave with,
        "--ip-masq=false",
        # and names that Docker does not know go to no server: within a container there is no resolver at this address.
        "--dns=127.0.0.1",
        # Docker gives no answer for such a name, and the client waits: two attempts of five seconds by default.
        "--dns-opt=timeout:1",
        "--dns-opt=attempts:1",
        # Ports published without an address are for this machine alone.
        "--ip=127.0.0.1",
        # Lowering it needs CAP_SYS_RESOURCE.
        "--oom-score-adjust=0",
        "--log-level=warn",
    ]
    if host.lacks_sys_resource:
        runtime = write_runtime(place, environment)
        options += [f"--add-runtime=gpushare={runtime}", "--default-runtime=gpushare"]
    return options


def write_runtime(place: Place, environment: Mapping[str, str]) -> Path:
    """Put the OCI runtime in front of runc into dockerd's PATH, whatever becomes of this checkout."""
    runc = program("runc", environment)
    if runc is None:
        raise ClusterError("there is no `runc`; install it (Debian: apt-get install runc)")
    copy = place.run / "oci_runtime.py"
    shutil.copyfile(Path(oci_runtime.__file__), copy)
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = python if python.exists() else Path(sys.executable)
    runtime = place.run / "oci-runtime"
    runtime.write_text(f'#!/bin/sh\nexec "{python}" -I -S "{copy}" "{runc}" "$@"\n')
    runtime.chmod(0o755)
    return runtime
