"""The plugin's counters of itself, and the sources of its present state.

Counting is always on and costs next to nothing; the library that shows it is loaded only if ``/metrics`` is served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.usage import NodeUse, PodOnCard
from gpushare.model.cards import NodeCards


class PluginMetrics:
    """The rest of the plugin counts here; ``metrics_exposition`` shows it if it is asked.

    Outcomes that are known are there, as 0, from the first scrape on: a rate needs a beginning.
    """

    def __init__(self) -> None:
        # Read at each scrape: the cards of this node (None: not counted yet), and its pods.
        self.cards: Callable[[], NodeCards | None] = lambda: None
        self.pods: Callable[[], Iterable[KeptPod]] = tuple
        # Pods with a container that may not start yet: the reasons by uid.
        self.held: Callable[[], Mapping[str, str]] = dict
        # Answers to Allocate: ``refused`` ones end their pod.
        self.allocations = Counter(granted=0, refused=0)
        # Annotations that followed the ids of their pod, and refusals to start a container.
        self.repairs = Counter(exchanged=0, held=0)
        # Pods that the kubelet had turned away.
        self.unadmitted_pods = Counter(reported=0, deleted=0)
        # By what was asked.
        self.nvml_errors = Counter(processes=0, survey=0, limits=0)
        # Running containers by the state of their limit; None: no limits are verified.
        self.limits: Mapping[str, int] | None = None
        # By resource.
        self.registrations: Counter[str] = Counter()
        # By resource of the API: each time that the API server showed one.
        self.unreadable_objects = Counter(nodes=0, pods=0)
        # By UUID and number of the Xid, critical or not.
        self.xids: Counter[tuple[str, str]] = Counter()
        # The newest look at the processes; ``over`` are above their limit and reported, ``unbooked`` on a card that is not theirs.
        self.seen: NodeUse | None = None
        self.over: frozenset[PodOnCard] = frozenset()
        self.overuse_episodes = 0
        # Pods that had overused for the whole grace period.
        self.overuse_evictions = Counter(evicted=0, refused=0)
        self.unbooked: frozenset[PodOnCard] = frozenset()
        self.unbooked_episodes = 0
