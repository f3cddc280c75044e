"""The events that the programs under test write, against what they are about. Pure; docs/troubleshooting.md has each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from clusters.api.exchanges import Written
from clusters.provider import DEVICE_PLUGIN, EXTENDER
from e2e import spec
from e2e.checkers.history import Entry, Object, State, name_of
from e2e.checkers.judgement import Finding, Rule

_OURS: Final = "GPUShare"
_COMPONENTS: Final = {DEVICE_PLUGIN: "gpushare-device-plugin", EXTENDER: "gpushare-extender"}
_NORMAL: Final = (spec.EVENT_CARD_RECOVERED, spec.EVENT_MEMORY_OVERUSE_ENDED)
_NODE: Final = re.compile(r" of node (\S+)")


def true_events(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users, each with the name of its program: their events are about what was there, and true of it."""
    known: dict[tuple[str, str], dict[str, str]] = {}

    def untrue_event(_: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written):
            return
        if entry.kind in ("pods", "nodes") and (item := entry.new or entry.old):
            is_pod = entry.kind == "pods"
            node = item["spec"].get("nodeName", "") if is_pod else item["metadata"]["name"]
            known.setdefault(("Pod" if is_pod else "Node", name_of(item)), {})[item["metadata"]["uid"]] = node
        event = entry.new if entry.kind == "events" and entry.user in accounts else None
        if event is None or not event.get("reason", "").startswith(_OURS):
            return
        about = event["involvedObject"]
        name = f"{about.get('namespace', '')}/{about.get('name', '')}"
        node = known.get((about.get("kind", ""), name), {}).get(about.get("uid", ""), None)
        if node is None:
            wrong = [f"there was no such {about.get('kind')} with uid {about.get('uid')!r}"]
        else:
            wrong = list(_wrong_fields(accounts[entry.user], event, entry.old, node))
        for text in wrong:
            yield Finding("untrue event", entry.at, f"{event['reason']}: {text}: {event.get('message')}", name)

    return untrue_event


def _wrong_fields(program: str, event: Object, old: Object | None, node: str) -> Iterator[str]:
    about, before = event["involvedObject"], (old or {}).get("count", 0)
    given = {field: event.get(field) for field in ("source", "type")}
    # A program sends a write again if its answer was lost.
    given["is counted"] = event.get("count") in (before + 1, before or 1)
    given |= {"namespace": event["metadata"]["namespace"], "apiVersion": about.get("apiVersion")}
    given["nodes"] = {*_NODE.findall(event.get("message", "")), node}
    right = {
        "source": {"component": _COMPONENTS[program], **({"host": node} if program == DEVICE_PLUGIN else {})},
        "type": "Normal" if event["reason"] in _NORMAL else "Warning",
        "is counted": True,
        "namespace": about.get("namespace") or "default",
        "apiVersion": "v1",
        "nodes": {node},
    }
    yield from (f"{field} is {given[field]}, should be {one}" for field, one in right.items() if given[field] != one)
