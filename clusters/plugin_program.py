"""The device plugin of a node whose kubelet is the stand-in, as a program: its flags name folders of that kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from clusters.processes.program import Program
from clusters.targets import Target


def plugin_program(
    target: Target,
    node: str,
    folder: Path,
    kubeconfig: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    sys_root: Path,
    starter: Sequence[str] = (),
) -> Program:
    """The target's plugin with these flags more. ``folder`` is the node's /var/lib/kubelet; ``starter`` comes before its argv.

    Raises ClusterError for a word in braces that is not known.
    """
    program = replace(target.device_plugin, argv=(*target.device_plugin.argv, *arguments))
    argv, own = program.command(
        node=node,
        kubeconfig=str(kubeconfig),
        device_plugin_path=str(folder / "device-plugins"),
        pod_resources_socket=str(folder / "pod-resources" / "kubelet.sock"),
        # The stand-in kubelet notes there which pod has which process.
        proc_root=str(folder / "proc"),
        sys_root=str(sys_root),
    )
    log = folder / "device-plugin.log"
    return Program(f"device plugin of {node}", [*starter, *argv], {**environment, **own}, log)
