"""The interface of a cluster to the demo, to the end-to-end cases and to the load.

A dozen members and three, no more. Whatever else a case needs it gets through the API server, as a user would.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, TypeVar

import msgspec
import yaml

from clusters.api.api_client import ApiClient

# The end of msgspec's text: `$.extender.argv[0]`; and what it quotes before, a field or a value.
_PATH: Final = re.compile(r"`\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_QUOTED: Final = re.compile(r"unknown field `([^`]*)`|enum value '([^']*)'")


def place_of(text: str, error: str) -> str:
    """``, line 7`` for an error in the text, or "" if it names no place there."""
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return ""
    if node is None:
        return ""
    path = _PATH.search(error)
    for step in _STEP.finditer(path[1] if path else ""):
        node = _below(node, step[1], step[2]) or node
    quoted = _QUOTED.search(error)
    named = _named(node, quoted[1] or quoted[2]) if quoted else None
    return f", line {(named or node).start_mark.line + 1}"


def _below(node: yaml.Node, key: str | None, index: str | None) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and index is not None:
        return node.value[int(index)] if int(index) < len(node.value) else None
    return None


def _named(node: yaml.Node, name: str) -> yaml.Node | None:
    """The key or the element of that name."""
    if not isinstance(node, yaml.MappingNode | yaml.SequenceNode):
        return None
    parts = [part[0] if isinstance(part, tuple) else part for part in node.value]
    return next((part for part in parts if part.value == name), None)


T = TypeVar("T")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

# The programs of a cluster that are killed and launched.
EXTENDER: Final = "extender"
DEVICE_PLUGIN: Final = "device_plugin"
KUBELET: Final = "kubelet"


_PART: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


class LimitSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a simulated node limits what a container holds of a card: its kernel, driver and container runtime."""

    backend: Literal["", "dmem", "misc", "none"] = ""
    """The part that enforces limits (``fake_nvml.box``); "" as the box has it."""
    switched_off: bool = False
    """The driver's parameter RmMemacctMode is 0: the kernel could, and Set answers NOT_SUPPORTED."""
    keeps_dead: bool = False
    context_mib: Annotated[int, msgspec.Meta(ge=0)] = 0
    """As ``keeps_dead_limits`` and ``context_mib`` of a box."""
    cgroup: Literal["v1", "v2"] = "v2"
    hook: bool = True
    """Whether NVIDIA's runtime runs its hook; not in legacy mode, nor with the CDI specification of an older toolkit."""
    order: Literal["containerd", "cri-o"] = "containerd"
    """The hook takes the image's value of a variable, else the plugins' (containerd), or the author's (CRI-O)."""


class NodeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node to make: its cards (a box of fake_nvml, by name or file), and the machine as its kubelet reports it."""

    name: Annotated[str, msgspec.Meta(pattern=rf"^{_PART}(\.{_PART})*$", max_length=253)]
    """A DNS subdomain, as Kubernetes takes it."""
    box: str = "none"
    driver: str | None = None
    labels: dict[str, str] = {}
    cpu: str = "16"
    memory: str = "64Gi"
    pods: str = "110"
    plugin_arguments: tuple[str, ...] = ()
    """Flags of the node's device plugin beside the target's own; words in braces are filled in, as there."""
    plugin_options: dict[str, str] = {}
    """The same by option, each of which the target spells its own way (``clusters.targets.Option``)."""
    admission_shuffle: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """With the stand-in kubelet: equal pods that are bound within this many seconds are admitted in any order."""
    memory_limits: LimitSpec = LimitSpec()
    """With the stand-in kubelet; on real ones those of the fields that are the driver's."""


class _Nodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    nodes: Annotated[list[NodeSpec], msgspec.Meta(min_length=1)]


class ClusterError(Exception):
    """A cluster that cannot be made or does not do as it should; the text has what, where, and what to do."""


class Cluster(Protocol):
    """One running cluster."""

    kubeconfig: Path
    """An administrator's; the file is complete once it exists."""
    api: ApiClient
    """A connection to its API server."""

    async def start(self) -> None:
        """Bring it up, ready to schedule pods onto cards. Raises ClusterError, and then leaves nothing behind."""

    async def stop(self) -> None:
        """End everything that ``start`` started."""

    def extender_url(self) -> str:
        """Where the extender's verbs are, as the scheduler calls them."""

    async def kubeconfig_of(self, account: str, node: str = "") -> Path:
        """A kubeconfig with the rights of that ServiceAccount (``namespace/name``) and nothing more; "" an administrator's.

        With ``node``, its token is bound to a pod of that account on that node, as a DaemonSet's program has it; the pod is
        created if there is none. A token of a pod that has been deleted is replaced: the file is written at each call.
        """

    async def kill(self, program: str, node: str | None = None) -> None:
        """Kill a program (``extender``, or ``device_plugin`` or ``kubelet`` of a node) without a word (SIGKILL); it stays down.

        A kubelet's containers run on.
        """

    async def launch(self, program: str, node: str | None = None) -> None:
        """Start a program that was killed, and wait until it is ready."""

    async def restart_kubelet(self, node: str, *, reboot: bool = False, lose_checkpoint: bool = False) -> None:
        """Restart a node's kubelet: its sockets are removed and made again, its checkpoint stays unless it must be lost.

        ``reboot`` restarts the machine: containers end, the boot id is another, the cards and the device plugin start again.
        """

    def cards(self, node: str) -> list[dict[str, Any]]:
        """The state of a node's cards: index, uuid, name, memory total and used in MiB, processes."""

    async def fake_nvml(self, node: str, *arguments: str) -> str:
        """The output of the command ``fake-nvml`` with these arguments on that node: ``show`` the cards, or change them.

        Raises ClusterError with its error; if the cards are real, for all but ``show``, which nvidia-smi answers.
        """

    def kubelet_folder(self, node: str) -> Path:
        """Where this machine has the folders ``device-plugins`` and ``pod-resources`` of a node's kubelet, with their sockets.

        Raises ClusterError for a node that has them on another machine.
        """

    def nvml_state(self, node: str) -> Path:
        """The state file of a node's simulated cards, for the command ``fake-nvml`` on this machine. Raises ClusterError."""

    def log(self, program: str, node: str | None = None) -> str:
        """The log of a program."""


def load_nodes(path: Path) -> list[NodeSpec]:
    """The nodes in a YAML file. Raises ClusterError that names the file and what is wrong in it."""
    nodes = read_yaml(path, _Nodes, "a list of nodes").nodes
    if twice := [name for name, count in Counter(node.name for node in nodes).items() if count > 1]:
        raise ClusterError(f"{path}: {twice[0]} is the name of several nodes")
    return nodes


def read_yaml(path: Path, kind: type[T], name: str, environment: Mapping[str, str] | None = None) -> T:
    """The YAML file as ``kind``, which errors call ``name``. Raises ClusterError with the place of the fault and its line.

    With an ``environment``, ``${NAME}`` is replaced by its variable of that name.
    """
    try:
        text = path.read_text(encoding="utf-8")
        # BaseLoader leaves numbers as they are written: driver 418.10 is not 418.1.
        document = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (it makes texts alone)
        if environment is not None:
            document = _filled(document, environment)
        return msgspec.convert(document, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ClusterError(f"{path}: not {name}: {error}{place_of(text, str(error))}") from error
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ClusterError(f"{path}: not {name}: {error}") from error


def _filled(document: Any, environment: Mapping[str, str]) -> Any:
    """The document with the environment's variables in place of ``${NAME}``. Raises ValueError for those that are not set."""
    missing: set[str] = set()

    def value_of(found: re.Match[str]) -> str:
        missing.update({found[1]} - environment.keys())
        return environment.get(found[1], "")

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: fill(value) for key, value in part.items()}
        if isinstance(part, list):
            return [fill(value) for value in part]
        return _VARIABLE.sub(value_of, part) if isinstance(part, str) else part

    filled = fill(document)
    if missing:
        raise ValueError(f"the environment has no variable {', '.join(sorted(missing))}")
    return filled
