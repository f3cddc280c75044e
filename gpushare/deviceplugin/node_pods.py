"""The pods of our node in the order in which a kubelet admits them.

A kubelet admits pods as its watch shows them bound, so the order is that of the Bindings, and each Binding has its place in
the API server's history: the resourceVersion that it gave the pod. The lowest version at which we saw a pod on this node
is therefore its place, whether a watch or a list showed it first, and in whatever order they came to us. (The time at
which a pod was assumed is not: binds overtake one another.) Where versions are no numbers, first seen is first bound.

The pods that it finds when it starts it admits by age, in seconds (measured on 1.36.3); of one second in any order.

A watch and a list overtake one another too: what is older than what we have is not taken, and what is gone stays gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gpushare import wire
from gpushare.manifests import ObjectMeta, Pod

# Where a kubelet notes on the API's copy of a static pod the uid that itself uses for it.
_STATIC_UID: Final = "kubernetes.io/config.hash"
# In digits. Anybody may write a time on a pod, and ``int`` raises for some thousands.
_LONGEST_NUMBER: Final = 20
# How many ended pods are remembered: far more than end between a list's answer and its arrival.
_ENDED_REMEMBERED: Final = 1000


class NodePods:
    """Pods of one node; feed it from a watch, and from a fresh list where the watch may be behind.

    ``on_change`` is called after every change.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.on_change = on_change
        self._pods: dict[str, Pod] = {}
        # By uid: the lowest version seen, and the number of arrival where that says nothing.
        self._places: dict[str, tuple[int, int]] = {}
        # By uid, when those were created that were here before the kubelet was.
        self._found: dict[str, str] = {}
        self._arrivals = 0
        self._ended: dict[str, None] = {}
        # Uids of pods that are known as a history showed them which the API server has lost.
        self._lost: set[str] = set()

    def in_admission_order(self) -> tuple[Pod, ...]:
        """All pods: those that the kubelet found at its start by age, then the others, first bound first."""
        return tuple(self._pods[uid] for uid in sorted(self._pods, key=self._turn))

    def were_found(self) -> None:
        """Another kubelet has started, and finds the pods that are here now."""
        self._found = {uid: pod.metadata.creation_timestamp or "" for uid, pod in self._pods.items()}

    def replace(self, pods: Iterable[Pod], version: str = "") -> None:
        """Take a complete list of that version: who is not on it is gone, unless the watch showed him later."""
        listed = {pod.metadata.uid: pod for pod in sorted(pods, key=_assume_time)}
        for uid in [uid for uid in self._pods if uid not in listed and not self._is_newer(uid, version)]:
            self._forget(uid)
        for pod in listed.values():
            self._take(pod)
        self.on_change()

    def set(self, pod: Pod) -> None:
        """A pod was bound here, or changed."""
        self._take(pod)
        self.on_change()

    def remove(self, metadata: ObjectMeta) -> None:
        """A pod is gone."""
        self._forget(metadata.uid)
        self.on_change()

    def begin_anew(self) -> None:
        """The API server's history went back, so versions start again: each pod's next version is believed, and no end counts.

        The pods stay until the list of the restored state shows or lacks them, in their order.
        """
        self._ended.clear()
        self._lost = set(self._pods)
        for turn, uid in enumerate(sorted(self._pods, key=self._turn), start=1):
            self._places[uid] = (0, turn)
        self._arrivals = len(self._pods)

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name; the newest where an old one of the same name is still known."""
        key = (namespace, name)
        found = [pod for pod in self.in_admission_order() if (pod.metadata.namespace, pod.metadata.name) == key]
        return found[-1] if found else None

    def by_uid(self, uid: str) -> Pod | None:
        """The pod that the kubelet calls by this uid: a static pod has another one in the API."""
        if uid in self._pods:
            return self._pods[uid]
        named = (pod for pod in self._pods.values() if (pod.metadata.annotations or {}).get(_STATIC_UID) == uid)
        return next(named, None) if uid else None

    def _turn(self, uid: str) -> tuple[bool, str, tuple[int, int]]:
        return uid not in self._found, self._found.get(uid, ""), self._places[uid]

    def _take(self, pod: Pod) -> None:
        uid, version = pod.metadata.uid, _number(pod.metadata.resource_version)
        if uid in self._ended:
            return
        if uid not in self._places:
            self._arrivals += 1
            self._places[uid] = (version, self._arrivals)
        place, arrival = self._places[uid]
        self._places[uid] = (min(place, version), arrival)
        if uid not in self._pods or not self._is_newer(uid, pod.metadata.resource_version):
            self._pods[uid] = pod
            self._lost.discard(uid)

    def _is_newer(self, uid: str, version: str) -> bool:
        """Do we know the pod as it was after that version? Not where one of the two is no number, or of a lost history."""
        if uid in self._lost:
            return False
        ours, theirs = _number(self._pods[uid].metadata.resource_version), _number(version)
        return ours > theirs > 0

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._places.pop(uid, None)
        self._found.pop(uid, None)
        self._lost.discard(uid)
        self._ended[uid] = None
        if len(self._ended) > _ENDED_REMEMBERED:
            del self._ended[next(iter(self._ended))]


def _number(text: str) -> int:
    """A version or a time as a number, 0 where it is none that could be one: it says nothing of an order then."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0


def _assume_time(pod: Pod) -> tuple[int, str, str]:
    """Close to the order of binding, for pods of a list without versions."""
    text = (pod.metadata.annotations or {}).get(wire.ANNOTATION_ASSUME_TIME, "")
    return _number(text), pod.metadata.creation_timestamp or "", pod.metadata.name
