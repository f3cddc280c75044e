"""The samples that a program publishes for Prometheus. Pure."""

from __future__ import annotations

import re
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

# Values by the name of the sample and its labels.
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


_PORT: Final = re.compile(r"metrics at address=127\.0\.0\.1 port=(\d+)")


def port_in(log: str) -> int:
    """The port on which the program that wrote the log publishes now."""
    return int(_PORT.findall(log)[-1])


def series_in(text: str) -> Series:
    """All samples."""
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def samples_in(text: str, name: str, **labels: str) -> list[Sample]:
    """The samples of that name with these labels."""
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return [one for one in samples if labels.items() <= one.labels.items()]


def total_in(text: str, name: str, **labels: str) -> float:
    """The sum of them."""
    return sum(one.value for one in samples_in(text, name, **labels))
