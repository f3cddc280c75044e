"""Limits and overuse of card memory, as the device plugin publishes them. Pure.

The limits that a driver enforces on containers are on their pod; the pods that use more of a card than they booked are on its node.
The author of a pod, or a node, may have written the text, so its size and each number in it are bounded. A text that is not ours
names no limits and no pods.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.bounds import LIMITS_TEXT, MESSAGE_KEPT, NAME_CHARACTERS, OVERUSE_TEXT, OVERUSERS
from gpushare.foreign import Decoder, entries_of
from gpushare.manifests import ContainerStatus, Pod
from gpushare.model.quantity import LARGEST

ENFORCED: Final = "enforced"
NONE: Final = "none"
LOOSE: Final = "loose"
TIGHT: Final = "tight"
UNKNOWN: Final = "unknown"
# The worst first.
STATES: Final = (NONE, LOOSE, TIGHT, UNKNOWN, ENFORCED)
HOOK: Final = "apply-cuda-memory-limits"
_OF_THE_HOOK: Final = (
    HOOK,
    "failed to set memory limits",
    "setting GPU memory limits is only supported",
    "nvmlDeviceSetMemoryLimits_v1",
)
# A runtime quotes the words of a pod's author, such as a command.
_QUOTED: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
# Reasons of a container that was never started, which are the runtime's: no program of the container can write their messages.
START_ERROR: Final = "StartError"
_NOT_STARTED: Final = ("CreateContainerError", "RunContainerError", START_ERROR, "ContainerCannotRun")


class ContainerLimit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A container's limit on the card with this index: its state, and the MiB that are in force (0 for none, or unknown)."""

    container: str
    index: int
    state: str
    mib: int


_DECODER = Decoder(tuple[ContainerLimit, ...], 0)


def encode_limits(limits: Iterable[ContainerLimit]) -> str:
    """The annotation; "" for no limits."""
    found = sorted(limits, key=lambda one: (one.container, one.index))
    text = msgspec.json.encode(found).decode() if found else ""
    return "" if LIMITS_TEXT.exceeded(len(text)) else text


def read_limits(text: str | None) -> tuple[ContainerLimit, ...]:
    """The limits that an annotation names."""
    if not text or LIMITS_TEXT.exceeded(len(text)):
        return ()
    return entries_of(text, _DECODER, _is_sane)


def _is_sane(one: ContainerLimit) -> bool:
    numbers_fit = all(0 <= number <= LARGEST for number in (one.index, one.mib))
    return numbers_fit and one.state in STATES and not NAME_CHARACTERS.exceeded(len(one.container))


class PodLimit(NamedTuple):
    """The limits of a pod on one card: the worst state of its containers, and the MiB of all."""

    state: str
    mib: int


def limits_by_card(pod: Pod) -> dict[int, PodLimit]:
    """The limits that the device plugin publishes on a pod, by index of the card; init containers that end are left out."""
    ending = {one.name for one in pod.spec.init_containers or () if one.restart_policy != "Always"}
    found = dict[int, PodLimit]()
    for one in read_limits((pod.metadata.annotations or {}).get(wire.ANNOTATION_LIMITS)):
        if one.container not in ending:
            state, mib = found.get(one.index, PodLimit(ENFORCED, 0))
            found[one.index] = PodLimit(min(state, one.state, key=STATES.index), mib + one.mib)
    return found


def unlimited_cards(pod: Pod, indices: Collection[int]) -> tuple[tuple[int, str], ...]:
    """Index and state of each of these cards of which a container of the pod can have more than its share."""
    if wire.ANNOTATION_LIMITS not in (pod.metadata.annotations or {}):
        return ()
    found = sorted(limits_by_card(pod).items())
    return tuple((index, limit.state) for index, limit in found if index in indices and limit.state in (NONE, LOOSE))


def hook_text(container: str, failure: str) -> str:
    """The text for people about a failure of the hook."""
    return (
        f"container {container} is kept from starting by NVIDIA's hook {HOOK}: delete the pod, as the kubelet gives its containers "
        f"the same limit again; {failure}"
    )


def hook_failure(status: ContainerStatus) -> str:
    """The runtime's message about a container that does not start because of NVIDIA's hook; "" for any other.

    The author of a pod can have the runtime report a command with such a name, or an image's user, but not that a hook failed.
    """
    if status.state is None or status.state.running is not None:
        return ""
    last = status.last_state.terminated if status.last_state is not None else None
    for one in (status.state.waiting, status.state.terminated, last):
        message = (one.message or "")[: MESSAGE_KEPT.most] if one is not None and one.reason in _NOT_STARTED else ""
        if any(name in message for name in _OF_THE_HOOK) and "hook" in _QUOTED.sub("", message):
            return message
    return ""


class CardOveruse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A pod, by its uid, that used ``used`` MiB of the card with this index when it was published, and booked ``booked`` MiB."""

    uid: str
    index: int
    booked: int
    used: int


_OVERUSE = Decoder(tuple[CardOveruse, ...], 0)


def encode_overuse(found: Iterable[CardOveruse]) -> str:
    """The annotation, "" for no pods; of more than a node may name those with the most MiB above their booking."""
    worst = sorted(found, key=lambda one: (one.booked - one.used, one.uid, one.index))[: OVERUSERS.most]
    return msgspec.json.encode(sorted(worst, key=lambda one: (one.index, one.uid))).decode() if worst else ""


def read_overuse(text: str | None) -> tuple[CardOveruse, ...]:
    """The pods that an annotation names."""
    # Each pod is a list in the text: they are counted before one of them is read.
    if not text or OVERUSE_TEXT.exceeded(len(text)) or OVERUSERS.exceeded(text.count("[") - 1):
        return ()
    return entries_of(text, _OVERUSE, _is_sane_overuse)


def _is_sane_overuse(one: CardOveruse) -> bool:
    numbers = one.index, one.booked, one.used
    return not NAME_CHARACTERS.exceeded(len(one.uid)) and all(0 <= number <= LARGEST for number in numbers)
