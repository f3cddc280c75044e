"""The leftovers of a dockerd that ended, or was killed: processes, cgroups, mounts, bridges, rules."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from clusters.kind.engine import egress, engine_cgroups, engine_processes, engine_settings, iptables
from clusters.kind.engine.host_network import remove_link
from clusters.kind.engine.place import DEFAULT_BRIDGE, NODES_BRIDGE, Place


def end_containers(place: Place) -> None:
    """Kill what a killed dockerd left running: its containerd, the shims, and what ran in its containers.

    The kernel lists them in two cgroups of ours. The records of them in its run folder go too, as on a machine that starts: a
    containerd that finds it there looks for each dead shim for a long time.
    """
    for group in (place.daemon_cgroup, place.cgroup):
        engine_processes.kill_all(partial(engine_cgroups.members, group))
    _unmount(place.exec_root)
    shutil.rmtree(place.exec_root, ignore_errors=True)


def remove(place: Place, environment: Mapping[str, str]) -> None:
    """Remove every trace but the images, and nothing that is another's. Raises ClusterError if the packet filter cannot be read."""
    end_containers(place)
    for group in (place.daemon_cgroup, place.cgroup):
        engine_cgroups.remove(group)
    _unmount(place.run, place.data)
    bridges = [DEFAULT_BRIDGE, NODES_BRIDGE]
    for bridge in bridges:
        remove_link(bridge)
    egress.remove(environment)
    # Our dockerd has ended: one that runs is another's, and so are rules that name no bridge of ours.
    alone = not engine_processes.in_this_network("dockerd") and iptables.are_all_ours(bridges, environment)
    iptables.remove(bridges, environment, docker_too=alone and not engine_settings.had_docker(place.before))
    engine_settings.put_back(place.before, environment, needed=not alone)
    shutil.rmtree(place.run, ignore_errors=True)


def _unmount(*folders: Path) -> None:
    for point in mount_points(Path("/proc/self/mountinfo").read_text(), folders):
        # Lazily: what still holds it lets go when it ends.
        subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def mount_points(mountinfo: str, folders: Iterable[Path]) -> list[str]:
    """The mounts at or below these folders, the deepest first, out of the text of ``/proc/self/mountinfo``."""
    tops = [str(folder) for folder in folders]
    points = [line.split()[4].replace("\\040", " ") for line in mountinfo.splitlines()]
    found = [point for point in points if any(point == top or point.startswith(f"{top}/") for top in tops)]
    return sorted(found, key=len, reverse=True)
