"""From records of requests to figures: percentiles by verb and extender, ratios over the server that does nothing. Pure.

The binds that extenders reported are compared with those that the API server has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from load.bench.bench_figures import percentile

_MADE: Final = "each reported bind is made"
_AS_ORDERED: Final = "each bind is made on the node of its order"
_NOT_MADE: Final = "each refused bind is left unmade"
FLOOR: Final = "does nothing"
VERBS: Final = ("filter", "prioritize", "bind", "inspect", "explain", "ui", "ui/state", "ui/events")
# Each figure of a row that is a time, with its share of all requests.
CUTS: Final[Mapping[str, float]] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
# With fewer requests than this the one of a thousand is an accident.
_FEWEST_FOR_P999: Final = 1000


class Record(NamedTuple):
    """One request: when it ended, in seconds since the epoch.

    ``refused`` is why a bind was, ``wrong`` what went wrong; "" for neither.
    A request to the server that does nothing has the name of the extender that it stands for.
    ``pod`` and ``node`` are those of an order to bind, "" for any other request.
    """

    at: float
    verb: str
    extender: str
    milliseconds: float
    size: int
    refused: str
    wrong: str
    fit: float | None = None
    """The share of the nodes that passed a filter."""
    pod: str = ""
    node: str = ""


def parse(lines: Iterable[str]) -> list[Record]:
    """The records of one file. Raises ValueError for a line that is none."""
    records = []
    for line in lines:
        at, verb, extender, milliseconds, size, refused, wrong, fit, pod, node = line.rstrip("\n").split("\t")
        share = float(fit) if fit else None
        records.append(
            Record(float(at), verb, extender, float(milliseconds), int(size), refused, wrong, share, pod, node)
        )
    return records


def rows(records: Sequence[Record], seconds: float) -> list[dict[str, Any]]:
    """Figures of each verb of each extender, and of the server that does nothing beside it; times are milliseconds."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record.extender, record.verb].append(record)
    floors = {extender: _cuts(found) for (extender, verb), found in groups.items() if verb == FLOOR}
    return [
        {"extender": extender, "verb": verb, **_figures(found, seconds)}
        | {
            f"{cut}_over_floor": _over(figure, floors.get(extender, {}).get(cut))
            for cut, figure in _cuts(found).items()
        }
        for (extender, verb), found in sorted(
            groups.items(), key=lambda one: (one[0][0], (*VERBS, FLOOR).index(one[0][1]))
        )
    ]


def failures(records: Sequence[Record], most: int = 10) -> list[dict[str, Any]]:
    """Failures and refusals by text, with their number; the most frequent first."""
    texts = ((record, record.wrong or record.refused) for record in records)
    found = Counter((record.extender, record.verb, text) for record, text in texts if text)
    return [
        {"extender": extender, "verb": verb, "wrong": wrong, "count": count}
        for (extender, verb, wrong), count in found.most_common(most)
    ]


def _figures(records: Sequence[Record], seconds: float) -> dict[str, Any]:
    fits = [record.fit for record in records if record.fit is not None]
    return {
        "count": len(records),
        "failures": sum(1 for record in records if record.wrong),
        "refused": sum(1 for record in records if record.refused),
        "per_second": round(len(records) / seconds, 1),
        "mean": round(sum(record.milliseconds for record in records) / len(records), 3),
        **_cuts(records),
        "max": max(record.milliseconds for record in records),
        "bytes": round(sum(record.size for record in records) / len(records), 1),
        "fit": round(sum(fits) / len(fits), 4) if fits else None,
    }


def _cuts(records: Sequence[Record]) -> dict[str, float | None]:
    """Over requests that were answered: a refused connection is quick."""
    times = [record.milliseconds for record in records if not record.wrong]
    if not times:
        return dict.fromkeys(CUTS)
    return {
        cut: None if cut == "p999" and len(times) < _FEWEST_FOR_P999 else percentile(times, share)
        for cut, share in CUTS.items()
    }


def _over(figure: float | None, floor: float | None) -> float | None:
    return round(figure / floor, 3) if figure is not None and floor else None


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
