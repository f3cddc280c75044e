"""How many nodes a scheduling cycle looks for before it stops and asks the extenders."""

from __future__ import annotations

# Below this number of nodes all are looked at; above it at least this many that fit.
SMALLEST_WINDOW = 100
# The percentage that the scheduler computes never falls below this.
SMALLEST_PERCENTAGE = 5


def feasible_nodes_to_find(node_count: int, percentage: int) -> int:
    """The number of fitting nodes after which the search ends; ``percentage`` 0 lets the cluster's size decide.

    So an extender sees at most 500 nodes of 5,000 (kube-scheduler, numFeasibleNodesToFind).
    """
    if node_count < SMALLEST_WINDOW:
        return node_count
    if percentage == 0:
        percentage = max(SMALLEST_PERCENTAGE, 50 - node_count // 125)
    return max(SMALLEST_WINDOW, node_count * percentage // 100)
