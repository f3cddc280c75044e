"""A node's simulated cards from outside, and the device plugin that runs on them: the state file and the programs that use it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from clusters.processes.commands import output_of
from clusters.processes.program import Program
from clusters.provider import ClusterError, LimitSpec, NodeSpec
from clusters.targets import Target
from fake_nvml import sysfs
from fake_nvml.box import Box
from fake_nvml.core.card_table import as_data
from fake_nvml.core.limits import LimitOptions
from fake_nvml.fake_nvml_errors import FakeNvmlError
from fake_nvml.main import environment_with_cards
from fake_nvml.state import State

# The folder may be missing on this machine; an empty one stays behind.
_MOUNT: Final = 'mkdir -p "$1" "$2"; mount --bind "$1" "$2"; shift 2; exec "$@"'
_STATE_VARIABLE: Final = "FAKENVML_STATE"


class SimulatedNode:
    """The cards of ``name``, in a state file in ``folder``, which is short enough for unix sockets."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], state_file: Path | None = None) -> None:
        self.name = name
        self.folder = folder
        self.state_file = state_file or folder / "nvml"
        self._environment = {**environment, _STATE_VARIABLE: str(self.state_file)}

    def cards(self) -> list[dict[str, Any]]:
        """The state of the cards, as ``fake-nvml show -o json`` prints it. Raises ClusterError."""
        # Read here: cases look often, and a process for each look takes more than all that they look at.
        try:
            with State.open(self.state_file) as state:
                return list(as_data(state.read())["cards"])
        except FakeNvmlError as error:
            raise ClusterError(f"the cards of {self.name}: {error}") from error

    def has_unknown_memory(self) -> bool:
        """Does no card report how much memory it has, as cards that share the processor's? Then the plugin has nothing to offer."""
        return not any(card["memory"]["total_mib"] for card in self.cards())

    async def fake_nvml(self, *arguments: str) -> str:
        """The output of the command. Raises ClusterError with its error."""
        return await output_of(["fake-nvml", *arguments], self._environment, f" on {self.name}")

    def device_plugin(self, target: Target, kubeconfig: Path, arguments: Sequence[str]) -> Program:
        """The plugin, started through the fake: it loads NVML as it always does."""
        return plugin_program(
            target,
            self.name,
            self.folder,
            kubeconfig,
            arguments,
            self._environment,
            sys_root=sysfs.folder_of(self.state_file),
            more=self._with_cards,
        )

    def _with_cards(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment in which a program finds the libraries of the cards' present driver, as ``fake-nvml exec`` makes it.

        Raises ClusterError.
        """
        try:
            return environment_with_cards(self.state_file, environment)
        except FakeNvmlError as error:
            raise ClusterError(f"the cards of {self.name}: {error}") from error


def new_cards(state_file: Path, node: NodeSpec) -> State:
    """The cards of a new node, in its state file. Raises ClusterError for a box that is not there."""
    try:
        box = Box.load(node.box, seed=node.name, driver=node.driver)
        return State.create(state_file, dataclasses.replace(box, limits=_limits_of(box, node.memory_limits)))
    except FakeNvmlError as error:
        raise ClusterError(f"node {node.name}: {error}") from error


def _limits_of(box: Box, spec: LimitSpec) -> LimitOptions:
    backend = "none" if spec.switched_off else spec.backend or box.limits.backend
    keeps, context = spec.keeps_dead or box.limits.keeps_dead, spec.context_mib or box.limits.context_mib
    return LimitOptions(backend, keeps, context)


def plugin_program(
    target: Target,
    node: str,
    folder: Path,
    kubeconfig: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    sys_root: Path,
    more: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
) -> Program:
    """The target's plugin with these flags more. ``folder`` is the node's /var/lib/kubelet; ``more`` is as ``Program`` has it.

    Raises ClusterError for a word in braces that is not known.
    """
    program = replace(target.device_plugin, argv=(*target.device_plugin.argv, *arguments))
    sockets = folder / "device-plugins"
    starter = _with_folder(sockets, program.fixed_folder) if program.fixed_folder else []
    argv, own = program.command(
        node=node,
        kubeconfig=str(kubeconfig),
        device_plugin_path=str(sockets),
        pod_resources_socket=str(folder / "pod-resources" / "kubelet.sock"),
        # The stand-in kubelet notes there which pod has which process.
        proc_root=str(folder / "proc"),
        sys_root=str(sys_root),
        # It makes the cgroups of containers there.
        cgroup_root=str(folder / "cgroup"),
        # The stand-in runtime finds devices of the CDI there.
        cdi_root=str(folder / "cdi"),
    )
    log = folder / "device-plugin.log"
    return Program(f"device plugin of {node}", [*starter, *argv], {**environment, **own}, log, more=more)


def _with_folder(folder: Path, fixed: str) -> list[str]:
    """The words before a program that make ``folder`` its folder ``fixed``, for itself alone. Raises ClusterError without root."""
    if os.geteuid() != 0:
        raise ClusterError(
            f"fixed_folder {fixed}: only root mounts {folder} there; run as root, or give the plugin a flag"
        )
    return ["unshare", "--mount", "--", "sh", "-euc", _MOUNT, "sh", str(folder), fixed]


def environment_of_programs(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which programs are found beside this interpreter, and reach this machine without a proxy."""
    path = f"{Path(sys.executable).parent}:{environment.get('PATH', '/usr/bin:/bin')}"
    return {**environment, "PATH": path, "NO_PROXY": "127.0.0.1,localhost"}
