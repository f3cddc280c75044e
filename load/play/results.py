"""From records of requests to figures, to verdicts by bounds, and to text. Pure.

Figures are percentiles by verb and extender, and ratios over the server that does nothing. Bounds that a run must keep are data,
relative to that server or to another extender of the same run. The binds that extenders reported are compared with those that the
API server has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from load.bench.bench_figures import cuts, find
from load.load_reports import Promise, number, table, warning, with_ratio

# Extenders that a bound applies to, beside names.
ALL: Final = "all"
OTHERS: Final = "others"
_MADE: Final = "each reported bind is made"
_AS_ORDERED: Final = "each bind is made on the node of its order"
_NOT_MADE: Final = "each refused bind is left unmade"
FLOOR: Final = "does nothing"
VERBS: Final = ("filter", "prioritize", "bind", "inspect", "explain", "ui", "ui/state", "ui/events")


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
    return cuts([record.milliseconds for record in records if not record.wrong])


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


class Bound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``figure`` of ``verb`` is at most ``most`` times that of ``over``. ``failures`` are a number, ``refused`` a share of all.

    ``over`` is ``floor``, the server that does nothing, or the name of another extender, asked in the same run: its URL, ``other``,
    ``baseline``. ``to`` are the extenders that it applies to: ``gpushare`` (ours), ``others``, ``all``, or one by its name. By
    default answers are judged of all, and times of ours alone: how fast another extender is, is no promise of this project.
    """

    verb: Literal["filter", "prioritize", "bind", "inspect", "explain", "ui", "ui/state", "ui/events"]
    figure: Literal["p50", "p95", "p99", "p999", "failures", "refused"]
    most: Annotated[float, msgspec.Meta(ge=0)]
    over: str = "floor"
    to: str = ""

    def applies_to(self, extender: str, ours: str) -> bool:
        """Is this extender judged by it?"""
        to = self.to or (ALL if self.figure in ("failures", "refused") else ours)
        return to in (ALL, extender) or (to == OTHERS and extender != ours)

    def judged(self, extender: str, value: float | None) -> Promise:
        """The bound with the figure that was found; what was not measured keeps no bound."""
        unit = "" if self.figure in ("failures", "refused") else f"x {self.over}"
        return Promise(f"{extender} {self.verb} {self.figure}".strip(), self.most, value, unit)


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    bounds: Annotated[list[Bound], msgspec.Meta(min_length=1)]


def judge(bounds: Sequence[Bound], rows: Sequence[Mapping[str, Any]], ours: str) -> list[Promise]:
    """Each bound with what the run came to, for each extender that it applies to; ours comes first.

    Another extender is judged in the verbs that it was asked. A bound to one that was not in the run is not measured.
    """
    asked = {str(row["extender"]) for row in rows}
    extenders = [ours, *sorted(asked - {ours})]
    verdicts = [
        bound.judged("" if extender == ours else extender, _value(bound, rows, extender))
        for extender in extenders
        for bound in bounds
        if bound.applies_to(extender, ours)
        and (extender == ours or find(rows, extender=extender, verb=bound.verb) is not None)
    ]
    absent = [bound for bound in bounds if bound.to not in ("", ALL, OTHERS, *extenders)]
    return [*verdicts, *(bound.judged(bound.to, None) for bound in absent)]


def _value(bound: Bound, rows: Sequence[Mapping[str, Any]], extender: str) -> float | None:
    row = find(rows, extender=extender, verb=bound.verb)
    if row is None:
        return None
    if bound.figure == "failures":
        return float(row["failures"])
    if bound.figure == "refused":
        return float(row["refused"]) / float(row["count"])
    if bound.over == "floor":
        return row.get(f"{bound.figure}_over_floor")
    other = find(rows, extender=bound.over, verb=bound.verb)
    figure, its = row[bound.figure], other[bound.figure] if other is not None else None
    return float(figure) / float(its) if figure is not None and its else None


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    order, cluster, failures = run["order"], run["cluster"], run["failures"]
    about = (
        f"{cluster['nodes']} simulated nodes ({cluster['file']}), {order['names']} names in a question, {order['shape']} at "
        f"{order['rate']:g} pods/s for {order['seconds']:g} s, {order['schedulers']} schedulers, {order['events']} events/s"
        f"{', TLS' if order['tls'] else ''}"
    )
    wrong = [f"{one['count']} x {one['verb']}, {one['extender']}: {one['wrong'][:200]}" for one in failures]
    bounds = ["bounds", *(f"  {one['text']}" for one in run["verdicts"])]
    parts = ([*warning(run["machine"]), about], list(_rows(run)), list(_outcome(run)), wrong, bounds)
    return "\n\n".join("\n".join(part) for part in parts if part)


def _rows(run: Mapping[str, Any]) -> Iterator[str]:
    yield "ms as Locust sees them; in brackets over a server that does nothing, which Locust asks each filter's question after it"
    rows = (
        (
            row["verb"] if row["extender"] == "gpushare" else f"{row['verb']}, {row['extender']}",
            *(row[key] for key in ("count", "failures", "refused")),
            *(with_ratio(row[cut], row.get(f"{cut}_over_floor"), 2) for cut in ("p50", "p95", "p99")),
            number(row["p999"], 2),
            number(row["max"], 2),
            number(row["bytes"]),
        )
        for row in run["rows"]
    )
    yield from table(("", "count", "failed", "refused", "p50", "p95", "p99", "p99.9", "max", "bytes"), rows)


def _outcome(run: Mapping[str, Any]) -> Iterator[str]:
    outcome = run["outcome"]
    counts, samples = outcome["counts"], outcome["samples"]
    left = counts["created"] - counts["binds"]
    yield (
        f"{counts['created']} pods came, {counts['binds']} were bound ({counts['binds'] / run['order']['seconds']:.1f}/s), "
        f"{left} wait still, {counts['ended']} ended; {outcome['events_per_second']:.0f} events/s beside"
    )
    if len(samples) > 1:
        first, last = samples[0], samples[-1]
        cores = (last["cpu_seconds"] - first["cpu_seconds"]) / (last["at"] - first["at"])
        memory = [sample["rss_mib"] for sample in samples]
        yield f"the extender took {cores:.2f} of a core and {memory[0]:.0f} MiB at first, {max(memory):.0f} MiB at most"
