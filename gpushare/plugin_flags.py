"""Flags for the device plugin's observers and reports, and for the answer to a container. Read by ``settings``.

Values that NVIDIA's device plugin has for the same thing have its names.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.durations import seconds_of
from gpushare.errors import UsageError
from gpushare.metrics_flags import add_metrics_flag, read_metrics_flag

ENVVAR: Final = "envvar"
VOLUME_MOUNTS: Final = "volume-mounts"
CDI_ANNOTATIONS: Final = "cdi-annotations"
CDI_CRI: Final = "cdi-cri"
LIST_STRATEGIES: Final = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
ID_STRATEGIES: Final = ("uuid", "index")
# A tenth: room for the memory that a context takes on a card, which no pod books.
DEFAULT_TOLERANCE: Final = "10%"

_MIB: Final = 1024 * 1024
_SIZES: Final = {"MiB": _MIB, "GiB": 1024 * _MIB}
# A day: anything longer is a slip.
_LONGEST_SECONDS: Final = 86_400.0
_KIND: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/")

Flag = Callable[..., None]


@dataclass(frozen=True, slots=True)
class UsageFlags:
    """Whether and how real use is compared with the booking; times in seconds."""

    interval: float
    """Between two looks at the processes on the cards."""
    tolerance_percent: int
    """How far above its booking a pod may be, as a share of it..."""
    tolerance_bytes: int
    """...and in bytes; one of the two is 0."""
    after: float
    """How long it must be above that before it is told."""
    proc_root: str
    """The host's /proc."""


@dataclass(frozen=True, slots=True)
class ContainerFlags:
    """How a container's runtime learns its card."""

    list_strategies: tuple[str, ...] = (ENVVAR,)
    """By a variable, by mounts, by the CDI; several are allowed."""
    id_strategy: str = "uuid"
    """A card's name there: ``uuid`` or ``index``."""
    cdi_kind: str = "nvidia.com/gpu"
    """Vendor and class of the CDI's names."""
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    """The beginning of the CDI's annotations."""


@dataclass(frozen=True, slots=True)
class PluginFlags:
    """All flags of this module."""

    metrics_address: tuple[str, int] | None
    """Where /metrics is served, host and port; None for nowhere."""
    usage: UsageFlags | None
    """None where real use is not looked at."""
    delete_unadmitted: bool
    """Whether pods that failed admission for a reason that has passed are deleted."""
    container: ContainerFlags


def add_flags(parser: argparse.ArgumentParser, flag: Flag, switch: Flag) -> None:
    """Declare them; ``flag`` and ``switch`` add one to the parser in both of Go's spellings."""
    add_metrics_flag(parser, flag, "/metrics and /healthz")
    switch(parser, "usage", "compare what pods use of the cards with what they booked; needs hostPID: true")
    flag(parser, "usage-interval", default="15s", help="between two looks at the cards' processes (default: 15s)")
    flag(
        parser,
        "overuse-tolerance",
        default=DEFAULT_TOLERANCE,
        help="above its booking by more than this a pod overuses: 10%%, 256MiB, 0 (default: 10%%)",
    )
    flag(parser, "overuse-after", default="60s", help="how long before the pod is told (default: 60s)")
    flag(parser, "proc-root", default="/proc", help="the host's /proc (default: /proc)")
    switch(
        parser,
        "delete-unadmitted",
        "delete pods of a controller that failed admission for a reason that has passed, so that it replaces them",
    )
    flag(
        parser,
        "device-list-strategy",
        action="append",
        help=f"how the runtime is told the card, comma-separated: {', '.join(LIST_STRATEGIES)} (default: envvar)",
    )
    flag(parser, "device-id-strategy", choices=ID_STRATEGIES, help="how a card is named there (default: uuid)")
    flag(parser, "visible-devices", choices=ID_STRATEGIES, help="the same as --device-id-strategy")
    flag(parser, "cdi-kind", default="nvidia.com/gpu", help="vendor/class of CDI names (default: nvidia.com/gpu)")
    flag(parser, "cdi-annotation-prefix", default="cdi.k8s.io/", help="of CDI annotations (default: cdi.k8s.io/)")


def read_flags(parsed: argparse.Namespace) -> PluginFlags:
    """The flags, checked. Raises UsageError, which names the flag and its values."""
    percent, size = _tolerance(parsed.overuse_tolerance)
    usage = UsageFlags(
        interval=duration(parsed.usage_interval, "usage-interval", least=1.0),
        tolerance_percent=percent,
        tolerance_bytes=size,
        after=duration(parsed.overuse_after, "overuse-after"),
        proc_root=parsed.proc_root,
    )
    return PluginFlags(
        metrics_address=read_metrics_flag(parsed),
        usage=usage if parsed.usage else None,
        delete_unadmitted=parsed.delete_unadmitted,
        container=ContainerFlags(
            list_strategies=_list_strategies(parsed.device_list_strategy or []),
            id_strategy=_id_strategy(parsed.device_id_strategy, parsed.visible_devices),
            cdi_kind=_matching(parsed.cdi_kind, _KIND, "cdi-kind", "vendor/class such as nvidia.com/gpu"),
            cdi_annotation_prefix=_matching(
                parsed.cdi_annotation_prefix, _PREFIX, "cdi-annotation-prefix", "a prefix such as cdi.k8s.io/"
            ),
        ),
    )


def duration(text: str, flag: str, least: float = 0.0) -> float:
    """Seconds of a duration (``durations``) within the limits of such flags. Raises UsageError."""
    seconds = seconds_of(text)
    if seconds is None:
        raise UsageError(f"--{flag} is {text!r}, not a time such as 15s or 1m30s")
    if not least <= seconds <= _LONGEST_SECONDS:
        raise UsageError(f"--{flag} is {text!r}; it takes {least:g}s to {_LONGEST_SECONDS:.0f}s")
    return seconds


def _tolerance(text: str) -> tuple[int, int]:
    """Percent and bytes."""
    match = re.fullmatch(r"(\d{1,6})(%|MiB|GiB|)", text, re.ASCII)
    if match is None or (match[2] == "" and int(match[1])):
        raise UsageError(
            f"--overuse-tolerance is {text!r}, neither a share such as 10% nor a size such as 256MiB, nor 0"
        )
    number, unit = int(match[1]), match[2]
    return (number, 0) if unit == "%" else (0, number * _SIZES.get(unit, 0))


def _list_strategies(texts: Sequence[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(word.strip() for text in texts for word in text.split(",")))
    for word in found:
        if word not in LIST_STRATEGIES:
            raise UsageError(f"--device-list-strategy has {word!r}; it takes {', '.join(LIST_STRATEGIES)}")
    return found or (ENVVAR,)


def _id_strategy(strategy: str | None, visible_devices: str | None) -> str:
    if strategy and visible_devices and strategy != visible_devices:
        raise UsageError(
            f"--device-id-strategy {strategy} and --visible-devices {visible_devices} contradict each other"
        )
    return strategy or visible_devices or "uuid"


def _matching(text: str, pattern: re.Pattern[str], flag: str, example: str) -> str:
    if not pattern.fullmatch(text):
        raise UsageError(f"--{flag} is {text!r}, not {example}")
    return text
