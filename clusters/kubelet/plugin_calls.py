"""The calls between a kubelet and its device plugins, with their answers, for judges that listen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# The folder of the plugins' sockets, which is one kubelet's, and a resource.
Place = tuple[Path, str]


@dataclass(frozen=True, slots=True)
class PluginCall:
    """One call; each list of a stream is one, and so is the end of the stream. Messages are those of the protocol."""

    at: float
    """When it began, in seconds of the event loop's clock."""
    socket: Path
    """The plugin's, in a folder of the folder that has the node's name; for ``List`` of PodResources the kubelet's."""
    resource: str
    method: str
    question: Any = None
    answer: Any = None
    """None for a refusal, for the end of a stream, and for Register, which is noted as it comes."""
    pod: str = ""
    """``namespace/name`` of the pod that is admitted, if the kubelet knows it."""

    @property
    def node(self) -> str:
        """The name of the kubelet's node."""
        return self.socket.parents[1].name

    @property
    def place(self) -> Place:
        """The same for all plugins that the kubelet has for the resource, one after the other."""
        return self.socket.parent, self.resource


# A logger would not do: pytest writes down each record in words, and lists have tens of thousands of ids.
LISTENERS: Final[list[Callable[[PluginCall], None]]] = []


def note(call: PluginCall) -> None:
    """Pass a call on to those that listen."""
    for listener in LISTENERS:
        listener(call)
