"""The pods of our node in the order in which a kubelet admits them.

A kubelet admits pods as its watch shows them bound, so the order is that of the Bindings, and each Binding has its place in
the API server's history: the resourceVersion that it gave the pod. The lowest version at which we saw a pod on this node
is therefore its place, whether a watch or a list showed it first, and in whatever order they came to us. (The time at
which a pod was assumed is not: binds overtake one another.) Where versions are no numbers, first seen is first bound.

The pods that it finds when it starts it admits by age, in seconds (measured on 1.36.3); of one second in any order.

A watch and a list overtake one another too: what is older than what we have is not taken, and what is gone stays gone.

Only pods that ask for cards and have not ended are kept, cut down (``kept_pods``), with the annotations that were bound. An
ended pod costs a place in a short list, whatever its author wrote on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from gpushare import wire
from gpushare.bounds import CONTAINERS_OF_AN_ENDED_POD, TURNED_AWAY_PODS
from gpushare.deviceplugin.core.kept_pods import (
    Changes,
    KeptPod,
    asks_for_cards,
    confirmed,
    corrected,
    cut_down,
    identity,
    keep,
    with_wishes_alone,
)
from gpushare.foreign import version_number
from gpushare.manifests import ObjectMeta, Pod, PodOutline
from gpushare.model.allocation import Allocation
from gpushare.model.pod import all_containers, is_finished, static_uid

# How many ended pods are remembered: far more than end between a list's answer and its arrival.
_ENDED_REMEMBERED: Final = 1000
# The version at which a pod ended that is gone: no later one brings it back.
_GONE: Final = 10**20
_FAILED: Final = "Failed"
# The version of a pod that is known as a history showed it which the API server has lost. Any other is news, and a write that
# depends on it is a conflict: no object has the version 1, and no server writes a leading zero.
_LOST: Final = "01"


class NodePods:
    """Pods of one node; feed it from a watch, and from a fresh list if the watch may be behind.

    ``on_change`` is called after every change.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.on_change = on_change
        self._pods: dict[str, KeptPod] = {}
        # By uid: is it none of those that were here before the kubelet was, when was such a one created, the lowest version seen,
        # and the number of arrival, for versions that are no numbers.
        self._places: dict[str, tuple[bool, str, int, int]] = {}
        self._arrivals = itertools.count()
        # By uid, of pods that were kept: the version at which they ended.
        self._ended: dict[str, int] = {}
        # Every pod here that has not ended, also without cards: which it is.
        self._identities: dict[str, ObjectMeta] = {}
        # The uids of pods here that cannot be read, and that were never read.
        self._unreadable: set[str] = set()
        # The newest of the failed pods that asked for cards.
        self._turned_away: dict[str, Pod] = {}

        # The newest version that was seen of anything.
        self.newest = 0

    def in_admission_order(self) -> tuple[KeptPod, ...]:
        """Pods that ask for cards: those that the kubelet found at its start by age, then the others, first bound first."""
        return tuple(self._pods[uid] for uid in self._order())

    @property
    def are_known(self) -> bool:
        """Could each pod of the node be read? One that cannot may hold any card."""
        return not self._unreadable

    def turned_away(self) -> tuple[Pod, ...]:
        """Pods that asked for cards and failed, the newest of them."""
        return tuple(self._turned_away.values())

    def by_kubelet_uid(self, node: ObjectMeta) -> dict[str, ObjectMeta]:
        """Every pod of this node that has not ended, without cards too, by the uid that its kubelet uses (``static_uid``).

        A uid of the API is that pod's alone, whatever is written on another; of several static pods of a uid the first counts.
        """
        static = {static_uid(pod, node): pod for pod in reversed(self._identities.values())}
        return {uid: pod for uid, pod in static.items() if uid is not None} | self._identities

    def were_found(self) -> None:
        """Another kubelet has started, and finds the pods that are here now."""
        for uid, pod in self._pods.items():
            self._places[uid] = (False, pod.metadata.creation_timestamp or "", *self._places[uid][2:])

    def missing_in(self, pods: Iterable[Pod], version: str) -> list[KeptPod]:
        """The pods that a list of that version lacks, unless the watch showed them later."""
        listed = {pod.metadata.uid for pod in pods}
        return [pod for uid, pod in self._pods.items() if uid not in listed and not self._is_newer(uid, version)]

    def replace(self, pods: Iterable[Pod], version: str = "", *, since: int = 0, without_ended: bool = False) -> None:
        """Take a complete list of that version: a pod that is not on it is gone, unless the watch showed it later.

        ``without_ended``: the list shows no failed pod, except one with an end that was not known.
        ``since`` is what ``newest`` was when the list was asked for. A list below it shows that etcd was restored.
        """
        if 0 < version_number(version) < since:
            self.restart_history()
        self._saw(version)
        listed = {pod.metadata.uid: pod for pod in sorted(pods, key=_assume_time)}
        for gone in self.missing_in(listed.values(), version):
            self._end(gone.metadata.uid, _GONE)
        self._unreadable &= listed.keys()
        for uid in [uid for uid in self._identities if uid not in listed and uid not in self._pods]:
            del self._identities[uid]
        for uid in [uid for uid in self._turned_away if uid not in listed and not without_ended]:
            del self._turned_away[uid]
        for pod in listed.values():
            self._take(pod)
        self.on_change()

    def set(self, pod: Pod) -> None:
        """A pod was bound here, or changed."""
        self._saw(pod.metadata.resource_version)
        self._take(pod)
        self.on_change()

    def expect(self, uid: str, changes: Changes | None) -> None:
        """A write of ours begins; None: it did not happen. If its answer is lost, the API may show it later."""
        if uid in self._pods:
            self._pods[uid] = replace(self._pods[uid], expected=changes)

    def wrote(self, pod: Pod) -> None:
        """The API server's answer to a write that is expected."""
        uid = pod.metadata.uid
        if uid in self._pods:
            self._pods[uid] = confirmed(self._pods[uid])
        self.set(pod)

    def correct(self, uid: str, has: Allocation) -> None:
        """By the kubelet's records a pod has this allocation, whatever is written on it."""
        self._pods[uid] = corrected(self._pods[uid], has)
        self.on_change()

    def remove(self, metadata: ObjectMeta) -> None:
        """A pod is gone."""
        uid = metadata.uid
        self._identities.pop(uid, None)
        self._turned_away.pop(uid, None)
        self._unreadable.discard(uid)
        if uid in self._pods or uid in self._ended:
            self._end(uid, _GONE)
        self.on_change()

    def restart_history(self) -> None:
        """The API server's history went back, so versions start again: each pod's next version is believed, and no end counts.

        The pods stay until the list of the restored state shows or lacks them, in their order.
        """
        self._ended.clear()
        self._turned_away.clear()
        self.newest = 0
        for turn, uid in enumerate(self._order()):
            pod = self._pods[uid]
            self._pods[uid] = replace(pod, metadata=replace(pod.metadata, resource_version=_LOST))
            self._places[uid] = (*self._places[uid][:2], 0, turn)

    def find(self, namespace: str, name: str) -> KeptPod | None:
        """The pod of that name; the newest if an old one of the same name is still known."""
        wanted = (namespace, name)
        newest_first = reversed(self.in_admission_order())
        return next((pod for pod in newest_first if (pod.metadata.namespace, pod.metadata.name) == wanted), None)

    def by_uid(self, uid: str) -> KeptPod | None:
        """The pod that asks for cards and has this uid in the API."""
        return self._pods.get(uid)

    def called(self, uid: str, node: ObjectMeta) -> KeptPod | None:
        """The pod that asks for cards and that the kubelet of this node calls by this uid."""
        if uid in self._identities:
            return self._pods.get(uid)
        return next((pod for pod in self.in_admission_order() if static_uid(pod.metadata, node) == uid), None)

    def _order(self) -> list[str]:
        return sorted(self._pods, key=self._places.__getitem__)

    def _saw(self, version: str) -> None:
        self.newest = max(self.newest, version_number(version))

    def _take(self, whole: Pod) -> None:
        pod = cut_down(whole) or whole
        uid, version = pod.metadata.uid, version_number(pod.metadata.resource_version)
        if isinstance(pod, PodOutline):
            if uid not in self._identities and uid not in self._ended:
                self._unreadable.add(uid)
            return
        self._unreadable.discard(uid)
        if is_finished(pod):
            self._identities.pop(uid, None)
            self._take_ended(pod, version)
        elif uid not in self._ended or 0 < self._ended[uid] < version:
            self._identities[uid] = identity(pod)
            if asks_for_cards(pod):
                self._take_living(pod, version)

    def _take_living(self, pod: Pod, version: int) -> None:
        uid = pod.metadata.uid
        if uid not in self._places:
            self._places[uid] = (True, "", version, next(self._arrivals))
        is_new, created, lowest, arrival = self._places[uid]
        self._places[uid] = (is_new, created, min(lowest, version), arrival)
        if uid not in self._pods or self._is_news(uid, version):
            self._pods[uid] = keep(pod, self._pods.get(uid))
            self._ended.pop(uid, None)

    def _take_ended(self, pod: Pod, version: int) -> None:
        """An ended pod holds nothing any more. A failed one is remembered for a while: its controller may have to be helped."""
        uid = pod.metadata.uid
        if not asks_for_cards(pod) or self._ended.get(uid) == _GONE:
            return
        self._end(uid, version)
        is_small = not CONTAINERS_OF_AN_ENDED_POD.exceeded(len(all_containers(pod)))
        if is_small and pod.status is not None and pod.status.phase == _FAILED:
            self._turned_away[uid] = with_wishes_alone(pod)
            _shorten(self._turned_away, TURNED_AWAY_PODS.most)

    def _is_news(self, uid: str, version: int) -> bool:
        """Is this another version of a known pod than ours, and no older one? Not every version is a number."""
        ours = version_number(self._pods[uid].metadata.resource_version)
        return not ours or not version or version > ours

    def _is_newer(self, uid: str, version: str) -> bool:
        """Do we know the pod as it was after that version? Not if one of the two is no number, or of a lost history."""
        ours, theirs = version_number(self._pods[uid].metadata.resource_version), version_number(version)
        return ours > theirs > 0

    def _end(self, uid: str, version: int) -> None:
        """The pod has ended at that version. One of a lost history has not: the restored state may bind it here again."""
        known = self._pods.pop(uid, None)
        self._places.pop(uid, None)
        if known is None or known.metadata.resource_version != _LOST:
            self._ended[uid] = version
            _shorten(self._ended, _ENDED_REMEMBERED)


def _shorten(remembered: dict[str, Any], most: int) -> None:
    """Forget the oldest."""
    while len(remembered) > most:
        del remembered[next(iter(remembered))]


def _assume_time(pod: Pod) -> tuple[int, str, str]:
    """Close to the order of binding, for pods of a list without versions."""
    text = (pod.metadata.annotations or {}).get(wire.ANNOTATION_ASSUME_TIME, "")
    return version_number(text), pod.metadata.creation_timestamp or "", pod.metadata.name
