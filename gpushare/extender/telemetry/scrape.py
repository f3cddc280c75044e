"""The text of all series, made in slices: a scrape of thousands of cards lets the scheduler's questions pass in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

# The plain format, which every Prometheus takes.
_ENCODE, CONTENT_TYPE = choose_encoder("")


class _Piece(Collector):
    """One piece, for an encoder that asks a registry."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


async def scrape(exposition: Collector) -> list[bytes]:
    """The text, in order; pieces of a family stand together, under one head."""
    families: dict[str, list[bytes]] = {}
    for piece in exposition.collect():
        text = _ENCODE(_Piece(piece))
        known = families.get(piece.name)
        if known is None:
            families[piece.name] = [text]
        else:
            # Without the lines of HELP and TYPE.
            known.append(text.split(b"\n", 2)[2])
        await asyncio.sleep(0)
    return [text for texts in families.values() for text in texts]
