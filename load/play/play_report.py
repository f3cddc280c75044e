"""A run as text: ratios and times by verb, what the extender took, the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from load.load_reports import number, table, warning


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
            *(_with_ratio(row, cut) for cut in ("p50", "p95", "p99")),
            number(row["p999"], 2),
            number(row["max"], 2),
            number(row["bytes"]),
        )
        for row in run["rows"]
    )
    yield from table(("", "count", "failed", "refused", "p50", "p95", "p99", "p99.9", "max", "bytes"), rows)


def _with_ratio(row: Mapping[str, Any], cut: str) -> str:
    over = row.get(f"{cut}_over_floor")
    return number(row[cut], 2) + (f" ({over:.2f})" if row[cut] is not None and over is not None else "")


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
