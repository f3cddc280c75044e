"""How many nodes the embedded scheduler looks at for one pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduling.window import feasible_nodes_to_find


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (1, 1),
        (50, 50),
        (99, 99),
        (100, 100),
        (200, 100),
        (249, 122),
        (500, 230),
        (1000, 420),
        (2000, 680),
        (3000, 780),
        (5000, 500),
        (5625, 281),
        (6000, 300),
        (10000, 500),
        (15000, 750),
    ],
)
def test_window_of_the_default_percentage(nodes: int, names: int) -> None:
    """The table of what an extender is sent at most, by the size of the cluster."""
    assert names == feasible_nodes_to_find(nodes, 0)


@given(st.integers(0, 20_000), st.integers(0, 100))
def test_window_is_between_100_and_the_cluster(nodes: int, percentage: int) -> None:
    """No percentage searches less than 100 nodes, or more than there are."""
    found = feasible_nodes_to_find(nodes, percentage)

    assert min(nodes, 100) <= found <= max(nodes, 0)


def test_window_of_100_percent_is_all() -> None:
    """Every node is searched."""
    assert 5000 == feasible_nodes_to_find(5000, 100)
