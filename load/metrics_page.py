"""Some series of a page for Prometheus. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(page: str, names: Iterable[str]) -> Iterator[Sample]:
    """Samples with names that begin so. A page with a line for each of thousands of cards is long, and is not parsed as a whole."""
    wanted = tuple(names)
    lines = [line for line in page.splitlines() if line.startswith(wanted)]
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        yield from family.samples
