"""The writes of the programs under test, by their accounts: what others wrote stays. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.api.exchanges import Written
from clusters.provider import DEVICE_PLUGIN, EXTENDER
from e2e import spec
from e2e.checkers.history import Entry, Object, State, name_of
from e2e.checkers.judgement import Finding, Rule

# The words that a name of ours has: of an annotation, a resource, a condition.
_OURS: Final = ("aliyun.com/", "ALIYUN_COM_GPU_MEM", spec.POD_ALLOCATION, spec.NODE_HEALTHY)
_SERVER: Final = ("resourceVersion", "generation", "managedFields")


def foreign_stays(accounts: Mapping[str, str]) -> Rule:
    """A rule about these users, each with the name of its program: they change nothing of another's.

    Of a pod the extender may set the node once, and of both kinds of object each may change entries with our names. The plugin may
    end a pod, and write the status of one that a kubelet refused.
    """

    def foreign_write(_: State, entry: Entry) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.kind not in ("pods", "nodes") or entry.user not in accounts:
            return
        program = accounts[entry.user]
        if entry.old is None or entry.new is None:
            if program != DEVICE_PLUGIN or entry.kind == "nodes" or entry.old is None:
                verb = "created" if entry.old is None else "removed"
                yield _finding(entry, f"the {program} {verb} it")
            return
        for path in changed(entry.old, entry.new):
            if not _may_change(program, entry.kind, path, entry.old):
                yield _finding(entry, f"the {program} changed {'.'.join(path)}")

    return foreign_write


def changed(old: Any, new: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of all fields and entries that differ; conditions go by their type."""
    old, new = _by_type(old), _by_type(new)
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield path
        return
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            # A map that is not there has no entries.
            sides = [side.get(key, {} if isinstance(other.get(key), Mapping | list) else None)
                     for side, other in ((old, new), (new, old))]  # fmt: skip
            yield from changed(*sides, *path, key)


def _by_type(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(one, Mapping) and "type" in one for one in value):
        return {one["type"]: one for one in value}
    return value


def _may_change(program: str, kind: str, path: tuple[str, ...], old: Object) -> bool:
    match path:
        case ("metadata", field, *_) if field in _SERVER:
            return True
        case ("metadata", "annotations", name):
            return _is_ours(name)
        case ("status", "capacity" | "allocatable" | "conditions", name, *_) if kind == "nodes":
            return program == DEVICE_PLUGIN and _is_ours(name)
        case ("spec", "nodeName"):
            return program == EXTENDER and not old["spec"].get("nodeName")
        case ("status", "nominatedNodeName") | ("status", "conditions", "PodScheduled", *_):
            # A Binding writes both.
            return program == EXTENDER
        case ("metadata", "deletionTimestamp" | "deletionGracePeriodSeconds") | ("status", *_):
            return program == DEVICE_PLUGIN and kind == "pods"
    return False


def _is_ours(name: str) -> bool:
    return any(word in name for word in _OURS)


def _finding(entry: Written, text: str) -> Finding:
    item = entry.new or entry.old or {}
    is_pod = entry.kind == "pods"
    node = item["spec"].get("nodeName", "") if is_pod else item["metadata"]["name"]
    return Finding("foreign write", entry.at, text, name_of(item) if is_pod else "", node)
