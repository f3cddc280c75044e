"""Compare the binds that extenders reported with those that the API server has. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from load.play.results import Record

_MADE: Final = "each reported bind is made"
_AS_ORDERED: Final = "each bind is made on the node of its order"
_NOT_MADE: Final = "each refused bind is left unmade"


def broken_promises(records: Sequence[Record], placed: Mapping[str, str]) -> list[str]:
    """A line for each promise and extender that broke it, with a number and one example.

    ``placed`` is the node of each pod that the API server has as bound. A bind without a right answer may be made or not.
    """
    orders: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.pod:
            orders[record.pod].append(record)
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pod, asked in orders.items():
        for promise, extender, example in _broken(asked, placed.get(pod, "")):
            found[promise, extender].append(example)
    return [
        f"BROKEN  {promise}; {extender}: {len(examples)} were not ({examples[0]})"
        for (promise, extender), examples in sorted(found.items())
    ]


def _broken(asked: Sequence[Record], node: str) -> Iterator[tuple[str, str, str]]:
    """The promise, the extender, and the example, for the orders about one pod, which is on ``node`` ("": on none)."""
    reported = [one for one in asked if not one.wrong and not one.refused]
    if not reported and node and not any(one.wrong for one in asked):
        # Which of several refusals was the false one is not known: the later ones refuse a pod that is bound.
        yield _NOT_MADE, asked[0].extender, f"{asked[0].pod} is on {node}"
    made = next((one for one in reported if one.node == node), None)
    for one in reported:
        if made is None and node:
            yield _AS_ORDERED, one.extender, f"{one.pod} is on {node}, not on {one.node}"
        elif one is not made:
            yield _MADE, one.extender, f"{one.pod} on {one.node}"
