"""Flags of the device plugin that its parts read: about health, about real use, and about the answer to a container.

Flags and variables that NVIDIA's device plugin has for the same thing have its names. Times are in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpushare.cli.flags import duration, flag, switch, variable
from gpushare.errors import UsageError

# Variables of NVIDIA's device plugin, with its meaning: see deviceplugin.core.health.
ENV_DISABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENV_ENABLE: Final = "DP_ENABLE_HEALTHCHECKS"
ENVVAR: Final = "envvar"
VOLUME_MOUNTS: Final = "volume-mounts"
CDI_ANNOTATIONS: Final = "cdi-annotations"
CDI_CRI: Final = "cdi-cri"
LIST_STRATEGIES: Final = (ENVVAR, VOLUME_MOUNTS, CDI_ANNOTATIONS, CDI_CRI)
ID_STRATEGIES: Final = ("uuid", "index")

_MIB: Final = 1024 * 1024
_SIZES: Final = {"MiB": _MIB, "GiB": 1024 * _MIB}
_KIND: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far above its booking a pod may be before it is reported: a share of the booking, and bytes."""

    percent: int = 0
    bytes: int = 0

    def limit(self, booked: int) -> int:
        """The most that a pod with this booking may use, in bytes."""
        return booked + booked * self.percent // 100 + self.bytes


def _tolerance(text: str) -> Tolerance:
    match = re.fullmatch(r"(\d{1,6})(%|MiB|GiB|)", text, re.ASCII)
    if match is None or (match[2] == "" and int(match[1])):
        raise UsageError(", neither a share such as 10% nor a size such as 256MiB, nor 0")
    number, unit = int(match[1]), match[2]
    return Tolerance(number, 0) if unit == "%" else Tolerance(0, number * _SIZES.get(unit, 0))


def _command(text: str) -> tuple[str, ...]:
    words = tuple(text.split())
    if words and not words[0].startswith("/"):
        raise UsageError(", not the full path of a program, with its options")
    return words


def _list_strategies(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not set(words) <= set(LIST_STRATEGIES):
        raise UsageError(f"; it takes {', '.join(LIST_STRATEGIES)}")
    return words


def _matching(pattern: re.Pattern[str], example: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not pattern.fullmatch(text):
            raise UsageError(f", not {example}")
        return text

    return read


@dataclass(frozen=True, slots=True)
class UsageFlags:
    """Whether and how real use is compared with the booking."""

    is_on: bool = switch("usage", "compare what pods use of the cards with what they booked; needs hostPID: true")
    interval: float = flag("usage-interval", "between two looks at the cards' processes", "15s", duration(least=1.0))
    # A tenth: room for the memory that a context takes on a card, which no pod books.
    tolerance: Tolerance = flag(
        "overuse-tolerance", "above its booking by more than this a pod overuses: 10%, 256MiB, 0", "10%", _tolerance
    )
    after: float = flag("overuse-after", "how long a pod must overuse before it is reported", "60s", duration())
    evict: bool = switch(
        "evict-overusers",
        "evict a pod of a controller that overuses, as far as PodDisruptionBudgets allow; it has --usage in it, and needs a role",
    )
    eviction_grace: float = flag(
        "eviction-grace", "how long a reported pod must go on before it is evicted", "10m", duration(least=1.0)
    )
    proc_root: str = flag("proc-root", "the host's /proc", "/proc")

    @property
    def is_needed(self) -> bool:
        """Must real use be looked at?"""
        return self.is_on or self.evict


OFF: Final = "off"
REQUIRE: Final = "require"


@dataclass(frozen=True, slots=True)
class LimitFlags:
    """Whether the driver limits each container to its share of a card."""

    mode: str = flag(
        "memory-limit",
        "have the driver (R615 or newer) limit each container to its share; driver: if the node can, require: give out no card "
        "that cannot be limited",
        OFF,
        choices=(OFF, "driver", REQUIRE),
    )
    slack: Tolerance = flag(
        "memory-limit-slack", "a container's limit is its share and this: 10%, 256MiB, 0", "0", _tolerance
    )
    cgroup_root: str = flag(
        "cgroup-root", "the host's control groups, by which a limit is verified", "/host/sys/fs/cgroup"
    )

    hook: tuple[str, ...] = flag(
        "memory-limit-hook",
        "command of nvidia-cdi-hook (1.20.1 or newer) on the host, to limit by a CDI device of ours, which no image and no author "
        "can beat; empty: by variables",
        "",
        _command,
        is_list=True,
    )
    cdi_folder: str = flag(
        "cdi-root", "where the host reads files of CDI: the device of --memory-limit-hook", "/var/run/cdi"
    )

    @property
    def is_on(self) -> bool:
        """Are containers limited?"""
        return self.mode != OFF

    @property
    def is_required(self) -> bool:
        """Does a container get no card that cannot be limited?"""
        return self.mode == REQUIRE


@dataclass(frozen=True, slots=True)
class ContainerFlags:
    """How a container's runtime learns its card."""

    list_strategies: tuple[str, ...] = flag(
        "device-list-strategy",
        f"how the runtime learns the card, comma-separated: {', '.join(LIST_STRATEGIES)}",
        ENVVAR,
        _list_strategies,
        is_list=True,
    )
    id_strategy: str = flag(
        "device-id-strategy", "how a card is named there", "uuid", choices=ID_STRATEGIES, alias="visible-devices"
    )
    cdi_kind: str = flag(
        "cdi-kind",
        "vendor/class of CDI names",
        "nvidia.com/gpu",
        _matching(_KIND, "vendor/class such as nvidia.com/gpu"),
    )
    cdi_annotation_prefix: str = flag(
        "cdi-annotation-prefix", "of CDI annotations", "cdi.k8s.io/", _matching(_PREFIX, "a prefix such as cdi.k8s.io/")
    )


@dataclass(frozen=True, slots=True)
class HealthFlags:
    """When a card is unhealthy, and when it is healthy again."""

    check: bool = switch("health-check", "take a card out of use on a critical Xid", "true")
    cool_down: float = flag(
        "cool-down",
        "how long a driver must ask for no recovery, and the card answer, before it is healthy",
        "60s",
        duration(),
    )
    survey_interval: float = flag(
        "survey-interval",
        "between two counts of the cards; a card that the kernel reports is counted immediately",
        "10s",
        duration(least=1.0),
    )
    fail_on_init_error: bool = switch("fail-on-init-error", "end if there is no driver, instead of waiting for it")
    disabled: str = variable(ENV_DISABLE)
    """Xids to ignore beside those of applications, as written."""
    enabled: str = variable(ENV_ENABLE)
    """Xids to heed nevertheless, as written."""
