"""The questions to the programs under test, and the writes of the embedded API server, for reports and judges that listen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to a program, and its answer."""

    begun: float
    """Seconds of the monotonic clock, as ``at``."""
    at: float
    """When the answer was there."""
    asked: str
    """The method with its place."""
    question: Any
    """None without a body."""
    code: int | str
    answer: Any


@dataclass(frozen=True, slots=True)
class Written:
    """One object that the embedded API server wrote for a user."""

    at: float
    server: str
    """Host and port."""
    user: str
    kind: str
    """The resource's name in paths: ``pods``."""
    old: Mapping[str, Any] | None
    """None for an object that was created."""
    new: Mapping[str, Any] | None
    """None for one that is gone."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A cluster is up to its programs, which start now."""

    server: str
    """Host and port of its API server."""
    extender_url: str
    accounts: Mapping[str, str]
    """The user of each program that has an account of its own: ``extender``, ``device_plugin``."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Those of each node's device plugin beside the target's own."""


@dataclass(frozen=True, slots=True)
class StoodStill:
    """Programs of a cluster were stopped until now, or its history went back: they know other states."""

    at: float
    server: str
    """Host and port of its API server."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A cluster has ended: its host and port may be another's from now on."""

    server: str


@dataclass(frozen=True, slots=True)
class Injected:
    """A command that changed the simulated cards of a node."""

    at: float
    folder: Path
    """The node's."""
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limited:
    """A simulated container with cards that is about to start: the hook that limits its memory has run."""

    at: float
    uid: str
    """The pod's."""
    container: str
    mib: Mapping[int, int]
    """The size of each card that it sees, by index."""
    rows: Mapping[int, tuple[int, int | None]]
    """Soft and hard limit on each card that limits it, in bytes, by the table of the simulated driver; hard None: none."""
    is_other: bool
    """The image or the author of the pod has named another one."""


Event = Exchange | Written | Begun | StoodStill | Ended | Injected | Limited
LISTENERS: Final[list[Callable[[Event], None]]] = []


def note(asked: str, question: object, code: int | str, answer: object, begun: float = 0.0) -> None:
    """Pass on an exchange that has just ended."""
    pass_on(Exchange(begun, time.monotonic(), asked, question, code, answer))


def pass_on(event: Event) -> None:
    """Pass it on to those that listen."""
    for listener in LISTENERS:
        listener(event)
