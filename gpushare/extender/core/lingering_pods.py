"""Pods that have ended by their phase, while their status still shows running containers. Pure.

Such a pod keeps its card (``model.pod.is_lingering``), because the processes may really run. Nothing may ever correct its status,
so the next boot of its node ends it here: a pod of an ended phase is never started again. The device plugin writes the same on
the pod, which also lasts longer than this process (``wire.ANNOTATION_ENDED``); a node of the original's plugin has only this.

A pod belongs to the boot that its node reported before the pod's phase ended. If it cannot be known which of two boots that was, it
is the later one: the pod then keeps its card for longer, and no card is given away too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpushare.manifests import Node, Pod
from gpushare.model.node import boot_of
from gpushare.model.pod import is_lingering

# Pods that were ended by a boot, and are remembered for an audit's list.
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lingering pod: its node, the boot during which its phase ended ("": not known), and the version that showed it."""

    node: str
    boot: str
    version: int


class LingeringPods:
    """By uid. Feed it every bound pod with ``is_over``, and every node with ``booted``."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._over: dict[str, None] = {}

    def is_over(self, pod: Pod, node: Node | None, version: int) -> bool:
        """Has a boot of its node ended this bound pod? Remembers one that lingers; ``node`` is the book's, if it has it."""
        uid = pod.metadata.uid
        if not is_lingering(pod):
            self._seen.pop(uid, None)
            return False
        if uid not in self._over:
            self._seen.setdefault(uid, _Seen(pod.spec.node_name or "", boot_of(node), version))
        return uid in self._over

    def was_ended(self, pod: Pod) -> bool:
        """Has a boot ended it, as far as is remembered?"""
        return pod.metadata.uid in self._over and is_lingering(pod)

    def booted(self, node: Node, version: int) -> list[str]:
        """Uids of the pods that ended because the node reports another boot in this event."""
        name, boot = node.metadata.name, boot_of(node)
        if not boot:
            return []
        ended = []
        for uid, seen in [(uid, seen) for uid, seen in self._seen.items() if seen.node == name and seen.boot != boot]:
            if seen.boot and 0 < seen.version < version:
                ended.append(uid)
            else:
                self._seen[uid] = _Seen(name, boot, seen.version)
        for uid in ended:
            del self._seen[uid]
            self._over[uid] = None
        while len(self._over) > _REMEMBERED:
            del self._over[next(iter(self._over))]
        return ended

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._seen.pop(uid, None)
        self._over.pop(uid, None)
