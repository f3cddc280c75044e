"""Bounds that a run must keep, as data: relative to the server that does nothing or to another extender of the same run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from load.load_reports import Promise

# Extenders that a bound applies to, beside names.
ALL: Final = "all"
OTHERS: Final = "others"


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
        if bound.applies_to(extender, ours) and (extender == ours or _row(rows, extender, bound.verb) is not None)
    ]
    absent = [bound for bound in bounds if bound.to not in ("", ALL, OTHERS, *extenders)]
    return [*verdicts, *(bound.judged(bound.to, None) for bound in absent)]


def _value(bound: Bound, rows: Sequence[Mapping[str, Any]], extender: str) -> float | None:
    row = _row(rows, extender, bound.verb)
    if row is None:
        return None
    if bound.figure == "failures":
        return float(row["failures"])
    if bound.figure == "refused":
        return float(row["refused"]) / float(row["count"])
    if bound.over == "floor":
        return row.get(f"{bound.figure}_over_floor")
    other = _row(rows, bound.over, bound.verb)
    figure, its = row[bound.figure], other[bound.figure] if other is not None else None
    return float(figure) / float(its) if figure is not None and its else None


def _row(rows: Sequence[Mapping[str, Any]], extender: str, verb: str) -> Mapping[str, Any] | None:
    return next((row for row in rows if row["extender"] == extender and row["verb"] == verb), None)
