"""Limits that the driver enforces on a container's memory: can this node, which limit, and is it in force? Pure.

The driver (R615 or newer) limits the control group of a container. NVIDIA's hook ``apply-cuda-memory-limits`` sets the limit before
the container starts, by two variables that the plugin answers. On a node that cannot limit, the hook would keep the container from
starting, so a node is checked first. On a node without the hook nothing happens, so each limit is verified after the start.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.announced_cards import LONGEST_MESSAGE, Health
from gpushare.deviceplugin.core.candidates import Cards, container_cards
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.model import conditions
from gpushare.model.cards import NodeCards
from gpushare.model.limits import (
    ENFORCED,
    HOOK,
    LOOSE,
    NONE,
    STATES,
    TIGHT,
    UNKNOWN,
    ContainerLimit,
    hook_failure,
    hook_text,
    read_limits,
)
from gpushare.model.node import unit_mib
from gpushare.model.pod import container_statuses

MIB: Final = 1024 * 1024
# How long a container may run before the lack of a limit is believed, in seconds.
SETTLED_SECONDS: Final = 10.0
DRIVER_TOO_OLD: Final = "DriverTooOld"
CGROUP_V1: Final = "CgroupV1"
HOOK_FAILS: Final = "HookFails"
NO_DEVICE: Final = "NoDevice"
# As ``nvidia.ko`` shows its parameters.
_SWITCHED_OFF: Final = re.compile(r"RmMemacctMode=(?:0x)?0+(?![0-9a-fA-FxX])")
# Errors of the hook about the amounts that it was given. The plugin's own are never of that kind.
_OF_A_VALUE: Final = ("failed to parse NVIDIA_GPU_MEMORY_", "exceeds memory limit (", "Invalid Argument")
_MISC: Final = re.compile(r"^misc\s+\d+\s+\d+\s+1$", re.MULTILINE | re.ASCII)


class CdiHook(msgspec.Struct):
    """A program that the runtime runs beside a container."""

    args: list[str] | None = None


class CdiEdits(msgspec.Struct):
    """The changes of a container for a device."""

    hooks: list[CdiHook] | None = None


class CdiDevice(msgspec.Struct, rename="camel"):
    """A device by its name."""

    name: str = ""
    container_edits: CdiEdits | None = None


class CdiSpec(msgspec.Struct, rename="camel"):
    """A file of CDI, as far as hooks go (Container Device Interface, specification 1.1)."""

    kind: str = ""
    devices: list[CdiDevice] | None = None
    container_edits: CdiEdits | None = None


def devices_with_hook(specs: Iterable[CdiSpec], kind: str) -> dict[str, bool]:
    """By name, has each device of this kind the hook? A later file counts more, as in CDI."""
    return {
        device.name: any(HOOK in (hook.args or ()) for edits in (spec.container_edits, device.container_edits) if edits
                         for hook in edits.hooks or ())
        for spec in specs if spec.kind == kind for device in spec.devices or ()
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that decides whether a node can limit. Texts of files are "" if there is no such file.

    ``driver`` is its version, ``sets_limits`` has it the function, ``refusals`` is by UUID why a card answers no limit. ``hooks``
    are of ``devices_with_hook``, empty if the plugin names no CDI devices or no file can be read.
    """

    driver: str
    sets_limits: bool
    refusals: Mapping[str, str]
    cgroup_root: str
    is_cgroup_v2: bool = False
    dmem_capacity: str = ""
    controllers: str = ""
    parameters: str = ""
    hooks: Mapping[str, bool] = field(default_factory=dict)


class WhyNot(NamedTuple):
    """Why a card cannot limit: a word for programs, a text for people."""

    reason: str
    text: str


def why_not_limited(facts: NodeFacts, names: Mapping[str, str]) -> dict[str, WhyNot]:
    """The cards that cannot limit, by UUID. ``names`` are those of CDI for all cards, by UUID.

    A card in MIG mode cannot either; it is not shared at all.
    """
    if (of_node := _why_not_node(facts)) is not None:
        return dict.fromkeys(names, of_node)
    found = {}
    for uuid, name in names.items():
        if not facts.hooks.get(name, True):
            text = f"the CDI device {name} has no hook {HOOK}: write its file again with nvidia-container-toolkit 1.20.1 or newer"
            found[uuid] = WhyNot("NoHook", text)
        elif uuid in facts.refusals:
            found[uuid] = WhyNot("NotSupported", facts.refusals[uuid])
    return found


def _why_not_node(facts: NodeFacts) -> WhyNot | None:
    if not facts.sets_limits:
        return WhyNot(DRIVER_TOO_OLD, f"driver {facts.driver or 'unknown'} sets no memory limits: R615 is the first")
    if not facts.is_cgroup_v2:
        text = (
            f"{facts.cgroup_root} is no tree of cgroup version 2: mount the host's /sys/fs/cgroup there (--cgroup-root)"
        )
        return WhyNot(CGROUP_V1, text)
    if "nvidia/" not in facts.dmem_capacity and not _MISC.search(facts.controllers):
        return WhyNot(
            "KernelTooOld",
            "the kernel has the card's memory in no controller dmem, and the controller misc is not enabled",
        )
    if _SWITCHED_OFF.search(facts.parameters):
        return WhyNot("SwitchedOff", "the kernel module nvidia has RmMemacctMode=0")
    return None


def share_mib(cards: Cards, node: NodeCards) -> dict[int, int]:
    """A container's share of each of its cards in MiB, at most the card; empty if one is not known."""
    unit, sizes = unit_mib(node), {card.index: card.mib for card in node.cards}
    if not unit or any(index not in sizes for index, _ in cards):
        return {}
    return {index: min(units * unit, sizes[index]) for index, units in cards}


def limits_mib(cards: Cards, node: NodeCards, slack: Tolerance) -> dict[int, int]:
    """The limit that is right for each card of a container, in MiB: its share and the slack, at most the card."""
    sizes = {card.index: card.mib for card in node.cards}
    return {
        index: min(slack.limit(share * MIB) // MIB, sizes[index]) for index, share in share_mib(cards, node).items()
    }


def answered_mib(cards: Cards, node: NodeCards, slack: Tolerance) -> int | None:
    """The one limit for a container, in MiB; None if no limit would do.

    NVIDIA's hook has one number for all cards of a container, so it is that of the largest share. The driver refuses one above
    a card's memory, and the container would not start.
    """
    shares = share_mib(cards, node)
    smallest = min((card.mib for card in node.cards if card.index in shares), default=0)
    if not shares or max(shares.values()) > smallest:
        return None
    return min(max(limits_mib(cards, node, slack).values()), smallest)


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container that runs and booked cards; ``wanted`` has by index the limit that is right, in MiB."""

    uid: str
    name: str
    id: str
    wanted: Mapping[int, int]


def booked_limits(pod: KeptPod, node: NodeCards, slack: Tolerance) -> dict[str, dict[int, int]]:
    """By name of a container, and index of a card, the limit that is right, in MiB. It follows from booking and flags."""
    if pod.allocation is None:
        return {}
    return {
        name: limits_mib(container_cards(pod, pod.allocation, name, units), node, slack)
        for name, units in pod.gpu_containers
    }


def running_containers(pods: Iterable[KeptPod], node: NodeCards, slack: Tolerance) -> list[RunningContainer]:
    """The containers to verify, also after a restart of the plugin."""
    found = []
    for pod in pods:
        limits = booked_limits(pod, node, slack)
        for status in container_statuses(pod):
            is_running = status.state is not None and status.state.running is not None
            if is_running and status.container_id and status.name in limits:
                at = status.container_id.rpartition("://")[2]
                found.append(RunningContainer(pod.metadata.uid, status.name, at, limits[status.name]))
    return found


# By id of the container and index of the card, guarantee and limit as they were read, in bytes; None for no limit. Others are not
# known.
Readings = Mapping[tuple[str, int], tuple[int, int] | None]


class News(NamedTuple):
    """A limit that is not as it should be, ``wanted`` in MiB, since this look."""

    uid: str
    limit: ContainerLimit
    wanted: int


@dataclass(frozen=True, slots=True)
class LimitLook:
    """The result of one look: since when each container runs, by its id (the clock of the caller, seconds), and by uid the limits.

    A container that does not run keeps its last limits, so that a restart is no change. ``counts`` has the running ones by the
    worst state of each. ``unlimited`` are those that were in the news as not limited, by uid, name and card.
    """

    since: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, tuple[ContainerLimit, ...]] = field(default_factory=dict)
    news: tuple[News, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    unlimited: frozenset[tuple[str, str, int]] = frozenset()


def verify(
    before: LimitLook,
    shown: Mapping[str, str | None],
    containers: Iterable[RunningContainer],
    readings: Readings,
    now: float,
    unable: Collection[int] = (),
) -> LimitLook:
    """One more look. ``shown`` has by uid the annotation of each pod, which is what a plugin before this one saw.

    On a card that is ``unable`` to limit, no limit is no news. It is once the card can, also under another process of the plugin.
    """
    limits = {
        uid: {(one.container, one.index): one for one in before.limits.get(uid, read_limits(text))}
        for uid, text in shown.items()
    }
    since, news, counts = dict[str, float](), list[News](), Counter[str](dict.fromkeys(STATES, 0))
    unlimited = {place for place in before.unlimited if place[0] in limits}
    for container in containers:
        since[container.id] = before.since.get(container.id, now)
        of_pod, states = limits[container.uid], list[str]()
        for key in [key for key in of_pod if key[0] == container.name and key[1] not in container.wanted]:
            del of_pod[key]
        for index, wanted in container.wanted.items():
            found = _limit(container, index, wanted, readings)
            if found.state in (NONE, UNKNOWN) and now - since[container.id] < SETTLED_SECONDS:
                continue
            was, place = of_pod.get((container.name, index)), (container.uid, container.name, index)
            is_unlimited = found.state == NONE and index not in unable
            is_other = found.state in (LOOSE, TIGHT) and (was is None or was.state != found.state)
            if is_other or (is_unlimited and place not in unlimited):
                news.append(News(container.uid, found, wanted))
            (unlimited.add if is_unlimited else unlimited.discard)(place)
            of_pod[container.name, index] = found
            states.append(found.state)
        if states:
            counts[min(states, key=STATES.index)] += 1
    return LimitLook(
        since,
        {uid: tuple(of_pod.values()) for uid, of_pod in limits.items()},
        tuple(news),
        counts,
        frozenset(unlimited),
    )


def _limit(container: RunningContainer, index: int, wanted: int, readings: Readings) -> ContainerLimit:
    at = container.id, index
    if (reading := readings.get(at)) is None:
        return ContainerLimit(container.name, index, NONE if at in readings else UNKNOWN, 0)
    (soft, hard), exact = reading, wanted * MIB
    state = LOOSE if soft or hard > exact else ENFORCED if hard == exact else TIGHT
    return ContainerLimit(container.name, index, state, hard // MIB)


def limits_condition(why: Mapping[int, WhyNot], counts: Mapping[str, int]) -> Health:
    """The condition ``GPUShareMemoryLimits``; ``why`` has by index the cards that cannot limit."""
    if why:
        texts = {one.text: [str(at) for at in sorted(why) if why[at] == one] for one in why.values()}
        message = "; ".join(f"card {', '.join(cards)}: {text}" for text, cards in texts.items())
        return Health("False", why[min(why)].reason, message[:LONGEST_MESSAGE])
    total, bad, unknown = sum(counts.values()), counts[NONE] + counts[LOOSE], counts[UNKNOWN]
    if bad:
        text = f"{bad} of {total} containers can have more than their share; events of their pods say why"
        return Health("False", conditions.SOME_NOT_LIMITED, text)
    if unknown:
        return Health(
            "Unknown", conditions.NOT_VERIFIED, f"the limit of {unknown} of {total} containers cannot be read"
        )
    return Health("True", conditions.ENFORCED, "the driver limits each container to its share")


def limit_texts(news: News) -> tuple[str, str]:
    """Event and text about a limit that is not as it should be."""
    limit = news.limit
    what = f"container {limit.container} should have {news.wanted} MiB of card {limit.index} at most, and"
    if limit.state == NONE:
        return wire.EVENT_NOT_LIMITED, (
            f"{what} the driver does not limit it: it was started before --memory-limit was set, or by a runtime without NVIDIA's "
            f"hook {HOOK}; delete the pod if it should be limited"
        )
    if limit.state == LOOSE:
        more = f"its limit is {limit.mib} MiB" if limit.mib > news.wanted else "it is guaranteed memory"
        return wire.EVENT_LIMIT_LOOSE, (
            f"{what} {more}: its image or its pod sets {wire.ENV_MEMORY_LIMIT} or {wire.ENV_MEMORY_REQUEST}, or its share of "
            "another card is larger"
        )
    return wire.EVENT_LIMIT_TIGHT, f"{what} its limit is {limit.mib} MiB, so it gets less than it booked"


@dataclass(frozen=True, slots=True)
class Fuse:
    """Stops the answer of limits on a node with a hook that fails. ``blown`` is the driver under which one failed, None for none.

    A fuse is good again under another driver, and in another process of the plugin. ``seen`` are the failures of the last look,
    and ``driver`` is the one of that look.
    """

    blown: str | None = None
    seen: frozenset[tuple[str, ...]] = frozenset()
    driver: str | None = None

    def after(self, failures: Iterable[HookFailure], driver: str) -> Fuse:
        """The fuse after a look, under this driver.

        The failures of the first look under it may be from before it came; a hook that fails under it, too, fails again.
        """
        keys = {one.key: one for one in failures}
        fails = any(not one.is_of_value for key, one in keys.items() if key not in self.seen)
        is_blown = self.blown == driver or (fails and self.driver in (None, driver))
        return Fuse(driver if is_blown else None, frozenset(keys), driver)


class HookFailure(NamedTuple):
    """A container that does not start because of the hook; ``key`` is another for each attempt.

    If it ``is_of_value``, its image or its author named an amount that the hook or the driver refuses: another container can start.
    """

    pod: KeptPod
    key: tuple[str, ...]
    text: str
    is_of_value: bool = False


def hook_failures(pods: Iterable[KeptPod]) -> list[HookFailure]:
    """The failures that the pods show now."""
    return [
        HookFailure(
            pod,
            (pod.metadata.uid, status.name, status.container_id or ""),
            hook_text(status.name, failure),
            any(words in failure for words in _OF_A_VALUE),
        )
        for pod in pods
        for status in container_statuses(pod)
        if (failure := hook_failure(status))
    ]


def hook_fails(driver: str) -> WhyNot:
    """Why no card of a node with a blown fuse limits."""
    text = (
        f"NVIDIA's hook {HOOK} has kept a container from starting under driver {driver or 'unknown'}; none is limited until "
        "there is another driver, or the device plugin is restarted"
    )
    return WhyNot(HOOK_FAILS, text)
