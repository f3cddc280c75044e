"""The ids and cards of the node's containers, from the kubelet's records. Pure.

The kubelet's records have the ids of each container. Our ids show their card, so this knowledge survives a restart of every
program. Ids that we never announced (the Go plugin's) lie on the card that their pod's annotation names. An answer that
the kubelet has not written down yet is a guess, until the records show its container.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from gpushare import wire
from gpushare.deviceplugin.core.kept_pods import KeptPod


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the kubelet's records: a container has these ids.

    The pod is named by ``uid`` (the checkpoint) or by namespace and name (PodResources). ``variables`` are the variables of
    our answer, if that record keeps them.
    """

    container: str
    ids: frozenset[str]
    uid: str = ""
    namespace: str = ""
    pod: str = ""
    resource: str = wire.RESOURCE_MEMORY
    variables: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A container of a pod that the API shows, its ids, and the card (by index) of each id that is ours.

    ``is_guess``: we answered so, the records do not show it yet.
    """

    uid: str
    container: str
    ids: frozenset[str]
    card_of: Mapping[str, int]
    variables: Mapping[str, str] | None = None
    is_guess: bool = False

    @property
    def by_card(self) -> Counter[int]:
        """How many of its ids lie on each card."""
        return Counter(self.card_of.values())


class Holdings:
    """The holdings of all pods that the API shows and that have not ended."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.grants = tuple(grants)
        self._of_pod: dict[str, list[Grant]] = {}
        for grant in self.grants:
            self._of_pod.setdefault(grant.uid, []).append(grant)

    def of_pod(self, uid: str) -> tuple[Grant, ...]:
        """The holdings of a pod's containers."""
        return tuple(self._of_pod.get(uid, ()))

    def containers(self) -> dict[str, list[str]]:
        """By pod, the containers that have their ids."""
        return {uid: [grant.container for grant in grants] for uid, grants in self._of_pod.items()}

    def cards(self, uid: str) -> frozenset[int]:
        """The cards on which a pod's ids lie; none for ids that are not ours."""
        return frozenset(index for grant in self.of_pod(uid) for index in grant.card_of.values())

    def taken_besides(self, uid: str) -> set[str]:
        """The ids that containers of other pods have.

        A kubelet that is asked for its records while it waits for our answer forgets what that answer takes, and may offer
        the same ids again (kubernetes, device manager, ``UpdateAllocatedDevices``).
        """
        return {one for grant in self.grants if grant.uid != uid and not grant.is_guess for one in grant.ids}

    def owner(self, device_ids: Collection[str]) -> Grant | None:
        """The container that has these ids; of several (ids of an init container are reused) the one that has just these."""
        wanted = frozenset(device_ids)
        found = [grant for grant in self.grants if grant.ids & wanted]
        return min(found, key=lambda grant: (grant.ids != wanted, len(grant.ids - wanted)), default=None)


def lay(
    entries: Iterable[Entry],
    guesses: Iterable[Grant],
    pod_of: Callable[[Entry], KeptPod | None],
    cards_of: Callable[[Iterable[str]], Mapping[str, int]],
    *,
    resource: str,
) -> Holdings:
    """The holdings in ``resource`` (what is announced now).

    ``pod_of`` finds a line's pod, ``cards_of`` the cards of the ids that are ours. A guess counts while the records name
    neither the container of its ids nor other ids of its container.
    """
    grants = []
    written: set[str] = set()
    have: set[tuple[str, str]] = set()
    for entry in entries:
        pod = pod_of(entry)
        written |= entry.ids
        if pod is None:
            continue
        have.add((pod.metadata.uid, entry.container))
        if entry.resource == resource:
            grants.append(Grant(pod.metadata.uid, entry.container, entry.ids, cards_of(entry.ids), entry.variables))
    grants += [one for one in guesses if not one.ids & written and (one.uid, one.container) not in have]
    return Holdings(grants)


def used_units(
    holdings: Holdings, pods: Iterable[KeptPod], *, counts_slots: bool, besides: Collection[str] = ()
) -> Counter[int]:
    """Units of each card that containers hold which have not ended, without the ids ``besides``.

    An id is a unit; if slots are counted, a pod holds its request. Ids that are not ours count on the cards
    that their pod's annotation names, and so does a pod that was started and is in no record (the kubelet lost it).
    """
    used: Counter[int] = Counter()
    if not counts_slots:
        ids = {one: index for grant in holdings.grants for one, index in grant.card_of.items()}
        used.update(index for one, index in ids.items() if one not in besides)
    for pod in pods:
        grants = holdings.of_pod(pod.metadata.uid)
        foreign = frozenset(one for grant in grants if not grant.card_of for one in grant.ids)
        if counts_slots and len(foreign) < sum(len(grant.ids) for grant in grants):
            used.update(dict.fromkeys(holdings.cards(pod.metadata.uid), pod.units))
        elif foreign:
            used.update(_annotated(pod, len(foreign)))
        elif not grants and pod.was_started:
            used.update(_annotated(pod, pod.units))
    return used


def _annotated(pod: KeptPod, units: int) -> Mapping[int, int]:
    """The cards on which the annotations put the units."""
    allocation = pod.allocation
    if allocation is None:
        return {}
    return {allocation.index: units} if allocation.by_container is None else dict(allocation.shares)
