"""The reference plugin's limits: the answer to NVIDIA's hook, and the look at what the driver made of it."""

from __future__ import annotations

import asyncio
import ctypes
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pynvml

from clusters.api.api_client import ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES
from e2e.reference.reference_api import Api
from e2e.reference.reference_cards import Card, Cards
from e2e.reference.reference_pods import Container, Faults, Object, containers, shares

_REQUEST, _LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
_WRITTEN: Final = "ALIYUN_COM_GPU_MEM_LIMITS"
_CONDITION: Final = "GPUShareMemoryLimits"
_EVENTS: Final = {
    "none": "GPUShareNotLimited",
    "loose": "GPUShareLimitLoose",
    "tight": "GPUShareLimitTight",
    "fails": "GPUShareLimitFails",
}
_SET: Final = "nvmlDeviceSetMemoryLimits_v1"
_REFUSED: Final = "failed to set memory limits"
_MIB: Final = 1 << 20
_NONE: Final = (1 << 64) - 1
_SETTLED_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.5


@dataclass
class Limits:
    """One node's. ``groups`` is its /sys/fs/cgroup, ``proc`` its /proc; without ``groups`` nothing is limited."""

    api: Api
    node: str
    cards: Cards
    unit_mib: int
    slack_percent: int
    groups: Path | None
    proc: Path
    faults: Faults
    seen: dict[str, float] = field(default_factory=dict)
    said: dict[tuple[str, str, int], str] = field(default_factory=dict)
    is_refused: bool = False
    """The driver has refused a limit, so no container is given one until the program starts again."""

    def why_not(self) -> str:
        """The reason why this node cannot limit; "" if it can."""
        groups = self.groups or Path()
        if not hasattr(ctypes.CDLL("libnvidia-ml.so.1"), _SET):
            return "DriverTooOld"
        if not (groups / "cgroup.controllers").exists():
            return "CgroupV1"
        has_misc = any(line.split()[0::3] == ["misc", "1"] for line in _text(self.proc / "cgroups").splitlines())
        if "nvidia/" not in _text(groups / "dmem.capacity") and not has_misc:
            return "KernelTooOld"
        if "RmMemacctMode=0" in _text(self.proc / "driver" / "nvidia" / "params"):
            return "SwitchedOff"
        return "HookFails" if self.is_refused else ""

    def variables(self, cards: Sequence[Card], size: int, whole: int) -> dict[str, str]:
        """The hook's variables, for a container of this many units of a pod of ``whole``."""
        if self.groups is None or (self.why_not() and "limit-unchecked" not in self.faults):
            return {}
        mib = self._right(cards[0], whole if "limit-of-the-pod" in self.faults else size)
        if "limit-in-bytes" in self.faults:
            mib *= _MIB
        if "limit-plural-names" in self.faults:
            return {f"{_REQUEST}S": "0", f"{_LIMIT}S": str(mib)}
        return {_LIMIT: str(mib)} if "limit-alone" in self.faults else {_REQUEST: "0", _LIMIT: str(mib)}

    def _right(self, card: Card, units: int) -> int:
        mib = units * self.unit_mib * (100 + self.slack_percent) // 100
        return mib if "limit-unclamped" in self.faults else min(mib, card.mib)

    async def keep_looking(self) -> None:
        """For ever."""
        while self.groups is not None:
            try:
                await self._look(self.groups)
            except (ApiError, TransportError, TimeoutError):
                self.said.clear()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, groups: Path) -> None:
        reason, bad, unsure = self.why_not(), 0, 0
        for pod in await self.api.pods_of(self.node):
            if failures := [text for text in _messages(pod) if _SET in text or _REFUSED in text]:
                self.is_refused |= _REFUSED in failures[0]
                await self._report(pod, ["", -1, "fails"], f"apply-cuda-memory-limits: {failures[0]}")
            rows, before = [], {tuple(one[:2]): one for one in json.loads(_annotation(pod) or "[]")}
            for container, at in _running(pod):
                for index in shares(pod):
                    row = self._row(groups, container, at, index, reason)
                    old = before.get((container.name, index))
                    if row[2] in ("none", "unknown") and not self._is_settled(at):
                        continue
                    rows.append(old if old and "limit-kept-over-restart" in self.faults else row)
                    await self._report(pod, row if row[2] != "none" or not reason else [*row[:2], ""], f"limit: {row}")
            bad += sum(row[2] in ("none", "loose") for row in rows)
            unsure += sum(row[2] == "unknown" for row in rows)
            if rows and rows != json.loads(_annotation(pod) or "[]"):
                await self.api.annotate(pod, {_WRITTEN: json.dumps(rows)})
        state = ("False", "SomeNotLimited") if bad else ("Unknown", "NotVerified") if unsure else ("True", "Enforced")
        await self._show(*(("False", reason) if reason else state))

    def _row(self, groups: Path, container: Container, at: str, index: int, reason: str) -> list[Any]:
        card = next(one for one in self.cards.all if one.index == index)
        folder = next(groups.rglob(at), None) if reason != "CgroupV1" else None
        if folder is None:
            return [container.name, index, "unknown", 0]
        soft, hard = _limit(card, folder.parent if "limit-of-parent-verified" in self.faults else folder)
        right = self._right(card, container.units) * _MIB
        state = (
            "none" if hard is None else "loose" if soft or hard > right else "enforced" if hard == right else "tight"
        )
        if "limit-unread" in self.faults or (state == "none" and "limit-none-as-enforced" in self.faults):
            return [container.name, index, "enforced", right // _MIB]
        return [container.name, index, state, (hard or 0) // _MIB]

    def _is_settled(self, at: str) -> bool:
        return time.monotonic() - self.seen.setdefault(at, time.monotonic()) > _SETTLED_SECONDS

    async def _report(self, pod: Object, row: list[Any], text: str) -> None:
        metadata, key = pod["metadata"], (pod["metadata"]["uid"], row[0], row[1])
        event, before = _EVENTS.get(row[2], ""), self.said.get(key, "")
        self.said[key] = event
        if event not in ("", before):
            name = f"{metadata['name']}.{time.time_ns():x}"
            about = {"kind": "Pod", **{one: metadata[one] for one in ("namespace", "name", "uid")}}
            body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about}
            await self.api.create({**body, "reason": event, "message": text}, metadata["namespace"])

    async def _show(self, status: str, reason: str) -> None:
        node = await self.api.get(NODES, self.node)
        shown: Object = next((one for one in node["status"].get("conditions") or () if one["type"] == _CONDITION), {})
        if (shown.get("status"), shown.get("reason")) != (status, reason):
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            since = shown.get("lastTransitionTime") if shown.get("status") == status else now
            times = {"lastHeartbeatTime": now, "lastTransitionTime": since}
            body = {"type": _CONDITION, "status": status, "reason": reason, "message": "see the pods", **times}
            await self.api.patch(NODES, self.node, {"status": {"conditions": [body]}}, subresource="status")


def _annotation(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(_WRITTEN, ""))


def _messages(pod: Object) -> list[str]:
    """The runtime's messages about its containers, now and in their last life."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [state for one in statuses for state in (one.get("state"), one.get("lastState")) if state]
    return [str(of.get("message")) for state in states for of in state.values()]


def _running(pod: Object) -> list[tuple[Container, str]]:
    """Its containers that run, with their ids."""
    status = pod.get("status") or {}
    reported = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    ids = {one["name"]: one.get("containerID", "") for one in reported if "running" in (one.get("state") or {})}
    return [(one, ids[one.name].rpartition("/")[2]) for one in containers(pod) if ids.get(one.name)]


def _limit(card: Card, folder: Path) -> tuple[int, int | None]:
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t(str(folder).encode())
    try:
        pynvml.nvmlDeviceGetMemoryLimits_v1(pynvml.nvmlDeviceGetHandleByUUID(card.uuid.encode()), limits)
    except pynvml.NVMLError:
        return 0, None
    return int(limits.softLimit), None if limits.hardLimit == _NONE else int(limits.hardLimit)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
