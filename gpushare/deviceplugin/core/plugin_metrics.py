"""The plugin's counters of itself, and the sources of its present state.

Counting is always on and costs next to nothing; the library that shows it is loaded only if ``/metrics`` is served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from gpushare.deviceplugin.core.usage import NodeUse, PodOnCard
from gpushare.manifests import Pod
from gpushare.model.cards import CARDS_VERSION, NodeCards

# Outcomes that are there, as 0, from the first scrape on: a rate needs a beginning.
ALLOCATION_OUTCOMES: Final = ("granted", "refused")
REPAIR_OUTCOMES: Final = ("exchanged", "held", "failed")
UNADMITTED_ACTIONS: Final = ("reported", "deleted")


class PluginMetrics:
    """The calls of the rest of the plugin: counted here, shown by ``metrics_exposition`` if it is asked."""

    def __init__(self) -> None:
        self.cards: Callable[[], NodeCards] = lambda: NodeCards(CARDS_VERSION, "ids", "", "", ())
        self.pods: Callable[[], Iterable[Pod]] = tuple
        self.seen: NodeUse | None = None
        self.over: frozenset[PodOnCard] = frozenset()
        self.xids: Counter[tuple[str, str]] = Counter()
        self.allocations: Counter[str] = Counter(dict.fromkeys(ALLOCATION_OUTCOMES, 0))
        self.repairs: Counter[str] = Counter(dict.fromkeys(REPAIR_OUTCOMES, 0))
        self.unadmitted: Counter[str] = Counter(dict.fromkeys(UNADMITTED_ACTIONS, 0))
        self.nvml_errors: Counter[str] = Counter()
        self.registrations: Counter[str] = Counter()
        self.overuse = 0
        self.unbooked: frozenset[PodOnCard] = frozenset()
        self.unbooked_episodes = 0
        self.held: set[str] = set()

    def follow(self, cards: Callable[[], NodeCards], pods: Callable[[], Iterable[Pod]]) -> None:
        """Where the cards and the pods of this node are read from, at each scrape."""
        self.cards, self.pods = cards, pods

    def count_xid(self, uuid: str, xid: int) -> None:
        """The driver reported an Xid event of a card, critical or not."""
        self.xids[uuid, str(xid)] += 1

    def count_allocation(self, outcome: str) -> None:
        """An Allocate was answered: ``granted``, or ``refused`` (the pod fails)."""
        self.allocations[outcome] += 1

    def count_repair(self, outcome: str) -> None:
        """The card of a pod was found to be another than annotated: ``exchanged``, ``held``, ``failed``."""
        self.repairs[outcome] += 1

    def count_nvml_error(self, operation: str) -> None:
        """NVML refused: ``operation`` is what was asked, as ``processes``."""
        self.nvml_errors[operation] += 1

    def count_registration(self, resource: str) -> None:
        """The kubelet took our registration of a resource."""
        self.registrations[resource] += 1

    def count_unadmitted(self, action: str) -> None:
        """A pod that the kubelet had turned away was ``reported`` or ``deleted``."""
        self.unadmitted[action] += 1

    def hold(self, uid: str) -> None:
        """A container of the pod may not start yet. It counts until ``release``, or until the pod is gone."""
        self.held.add(uid)

    def release(self, uid: str) -> None:
        """A container of the pod may start; one that was never held is no error."""
        self.held.discard(uid)

    def show_usage(self, seen: NodeUse, over: Iterable[PodOnCard], begun: int) -> None:
        """The newest look at the processes; ``over`` are above their limit and reported, ``begun`` of them just now."""
        self.seen, self.over = seen, frozenset(over)
        self.overuse += begun

    def show_unbooked(self, on: frozenset[PodOnCard], begun: int) -> None:
        """Pods with a process on a card that they did not book, by the newest look; ``begun`` of them just now."""
        self.unbooked = on
        self.unbooked_episodes += begun
