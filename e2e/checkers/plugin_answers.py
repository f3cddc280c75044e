"""A device plugin's lists and answers against the protocol of the kubelet, and against each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from clusters.kubelet.plugin_client import SUPPORTED_VERSION, PluginCall
from e2e import spec
from e2e.checkers.history import Entry, Finding, State
from e2e.checkers.overcommit import share_of, size_of, uuid_of
from e2e.checkers.right_card import OTHER_MEANS

# Limits of a kubelet: the bytes of one message, and the characters of one id.
_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_ID_CHARACTERS: Final = 63
# NVIDIA's own plugin ignores these: the fault is the program's.
XIDS_OF_APPLICATIONS: Final = ("13", "31", "43", "45", "68", "109")


def sound_lists(_: State, entry: Entry) -> Iterator[Finding]:
    """A list fits in a message, and its ids are short and unique."""
    for call in _calls(entry, "ListAndWatch"):
        ids = [device.ID for device in call.answer.devices]
        if (size := call.answer.ByteSize()) > _MESSAGE_BYTES:
            yield _finding("list", call, f"it has {size} bytes, a kubelet takes {_MESSAGE_BYTES}")
        if twice := len(ids) - len(set(ids)):
            yield _finding("list", call, f"{twice} of its ids are there before")
        if long := [one for one in ids if len(one) > _ID_CHARACTERS]:
            yield _finding("list", call, f"{long[0]} has more than {_ID_CHARACTERS} characters")


def sound_registrations(_: State, entry: Entry) -> Iterator[Finding]:
    """Each registration has the version of the protocol and the name of a socket in the kubelet's folder."""
    if isinstance(entry, PluginCall) and entry.method == "Register" and entry.question is not None:
        version, endpoint = entry.question.version, entry.question.endpoint
        if version != SUPPORTED_VERSION:
            yield _finding("registration", entry, f"its version is {version!r}, a kubelet takes {SUPPORTED_VERSION}")
        if not endpoint or "/" in endpoint:
            yield _finding("registration", entry, f"its endpoint {endpoint!r} is no name of a file")


def ignored_xids(state: State, entry: Entry) -> Iterator[Finding]:
    """Xids of applications, if a node's cards had no other fault, make no id unhealthy at any instant."""
    for call in _calls(entry, "ListAndWatch"):
        words = state.injected.get(call.socket.parents[1])
        if words and all(one[:1] == ("xid",) and one[-1] in XIDS_OF_APPLICATIONS for one in words):
            unhealthy = [device.ID for device in call.answer.devices if device.health != "Healthy"]
            for one in unhealthy[:1]:
                yield _finding("ignored Xid", call, f"{one} is not healthy after Xid {words[-1][-1]} of an application")


def ended_streams(state: State, entry: Entry) -> Iterator[Finding]:
    """The old stream of lists has ended when a plugin registers: its end would take the new one with it."""
    if isinstance(entry, PluginCall) and entry.method == "Register" and entry.place in state.streams:
        yield _finding("open stream", entry, f"{entry.resource} is registered while its old stream is open")


def fit_preferences(_: State, entry: Entry) -> Iterator[Finding]:
    """Preferred ids, if there are some, are as many as asked for, each once, those that must be among them, and free ones."""
    for call in _calls(entry, "GetPreferredAllocation"):
        for asked, given in zip(call.question.container_requests, call.answer.container_responses, strict=False):
            ids, must = set(given.deviceIDs), set(asked.must_include_deviceIDs)
            if ids and not len(given.deviceIDs) == len(ids) == asked.allocation_size:
                text = f"{len(given.deviceIDs)} ids, {len(ids)} different ones, for {asked.allocation_size}"
                yield _finding("preferred ids", call, text)
            elif ids and not must <= ids <= must.union(asked.available_deviceIDs):
                yield _finding("preferred ids", call, f"{sorted(ids)} for {sorted(must)} and others that are free")


def granted_ids(state: State, entry: Entry) -> Iterator[Finding]:
    """Each container has an answer of its own, and a card only for ids that were announced, and healthy when it was asked."""
    for call in _calls(entry, "Allocate"):
        requests, answers = call.question.container_requests, call.answer.container_responses
        if len(requests) != len(answers):
            yield _finding("answers", call, f"{len(answers)} answers for {len(requests)} containers")
        known = state.announced.get(call.place, {})
        for ids, _, card, _ in _grants(call) if known else ():
            if refused := [one for one in ids if known.get(one, -1.0) < call.at]:
                text = f"a card is given for {refused[0]}, which is not announced as healthy"
                yield _finding("granted ids", call, text, card)


def named_cards(state: State, entry: Entry) -> Iterator[Finding]:
    """The variables name a card that the node has, to the runtime the same one, and as many units as there are ids."""
    for call in _calls(entry, "Allocate"):
        for ids, shown, card, units in _grants(call) if call.node in state.cards else ():
            if not size_of(state, call.node, card):
                yield _finding("named card", call, "the node has no such card", card)
            elif shown not in (uuid_of(state, call.node, card), str(card), *OTHER_MEANS):
                yield _finding("named card", call, f"the container sees {shown}", card)
            if call.resource == spec.RESOURCE_MEMORY and units != len(ids):
                yield _finding("named card", call, f"{units} units for {len(ids)} ids", card)


def ids_held_once(_: State, entry: Entry) -> Iterator[Finding]:
    """By the kubelet's records no id is held by two containers: a plugin that asks inside Allocate has it given out twice."""
    holders: dict[tuple[str, str], str] = {}
    for call in _calls(entry, "List"):
        for pod, container in ((one, container) for one in call.answer.pod_resources for container in one.containers):
            name = f"{pod.namespace}/{pod.name}"
            for key in ((device.resource_name, one) for device in container.devices for one in device.device_ids):
                if (holder := holders.setdefault(key, f"{name}/{container.name}")) != f"{name}/{container.name}":
                    yield Finding("held ids", call.at, f"{container.name} holds {key[1]} of {holder}", name, call.node)


PLUGIN_RULES: Final = (
    sound_lists, sound_registrations, ignored_xids, ended_streams, fit_preferences, granted_ids, named_cards, ids_held_once,
)  # fmt: skip


def _calls(entry: Entry, method: str) -> Iterator[PluginCall]:
    """The entry, if it is such a call and has an answer."""
    if isinstance(entry, PluginCall) and entry.method == method and entry.answer is not None:
        yield entry


def _grants(call: PluginCall) -> Iterator[tuple[Sequence[str], str, int, int]]:
    """The ids, the card for the runtime, and the card and the units for the program, of each container that is given one card."""
    for asked, given in zip(call.question.container_requests, call.answer.container_responses, strict=False):
        card, units = share_of(given.envs) or (-1, 0)
        if card >= 0:
            yield asked.devices_ids, given.envs.get(spec.ENV_VISIBLE, ""), card, units


def _finding(rule: str, call: PluginCall, text: str, card: int | None = None) -> Finding:
    return Finding(rule, call.at, text, call.pod, call.node, card)
