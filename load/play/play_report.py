"""A run as text: ratios and times by verb, what the extender took, the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

# A load above this for each processor: others are at work.
_BUSY: Final = 0.5


def text(run: Mapping[str, Any]) -> str:
    """All of it."""
    return "\n".join([*_about(run), *_rows(run["rows"]), *_outcome(run), *_failures(run["failures"]), *_verdicts(run)])


def _about(run: Mapping[str, Any]) -> Iterator[str]:
    machine, order, cluster = run["machine"], run["order"], run["cluster"]
    if machine["load_before"] > _BUSY * machine["cpus"]:
        yield f"the machine was busy before this began (load {machine['load_before']:.1f}): run it again"
    yield (
        f"{cluster['nodes']} simulated nodes ({cluster['file']}), {order['names']} names in a question, {order['shape']} at "
        f"{order['rate']:g} pods/s for {order['seconds']:g} s, {order['schedulers']} schedulers, {order['events']} events/s"
        f"{', TLS' if order['tls'] else ''}"
    )
    yield ""


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "ms as Locust sees them; in brackets over a server that does nothing, which Locust asks each filter's question after it"
    yield f"{'':<30}{'count':>8}{'failed':>8}{'refused':>9}{'p50':>17}{'p95':>17}{'p99':>17}{'p99.9':>9}{'max':>9}{'bytes':>9}"
    for row in rows:
        name = row["verb"] if row["extender"] == "gpushare" else f"{row['verb']}, {row['extender']}"
        cuts = "".join(f"{_with_ratio(row, cut):>17}" for cut in ("p50", "p95", "p99"))
        last = "-" if row["p999"] is None else f"{row['p999']:.2f}"
        counts = f"{row['count']:>8}{row['failures']:>8}{row['refused']:>9}"
        yield f"{name:<30}{counts}{cuts}{last:>9}{row['max']:>9.2f}{row['bytes']:>9.0f}"
    yield ""


def _with_ratio(row: Mapping[str, Any], cut: str) -> str:
    over = row.get(f"{cut}_over_floor")
    if row[cut] is None:
        return "-"
    return f"{row[cut]:.2f}" + (f" ({over:.2f})" if over is not None else "")


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
    yield ""


def _failures(failures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in failures:
        yield f"{one['count']} x {one['verb']}, {one['extender']}: {one['wrong'][:200]}"
    if failures:
        yield ""


def _verdicts(run: Mapping[str, Any]) -> Iterator[str]:
    yield "bounds"
    yield from (f"  {one['text']}" for one in run["verdicts"])
