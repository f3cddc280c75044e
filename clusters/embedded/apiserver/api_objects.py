"""API objects as decoded JSON, and what all of them have."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from clusters.amounts import amount_of

Object = dict[str, Any]


def metadata_of(item: Object) -> Object:
    """The metadata; empty if there is none."""
    return item.get("metadata") or {}


def name_of(item: Object) -> str:
    """The name, or an empty text."""
    return str(metadata_of(item).get("name") or "")


def namespace_of(item: Object) -> str:
    """The namespace; an empty text for an object of the whole cluster."""
    return str(metadata_of(item).get("namespace") or "")


def uid_of(item: Object) -> str:
    """The uid: an object created again under its name has another one."""
    return str(metadata_of(item).get("uid") or "")


def labels_of(item: Object) -> dict[str, str]:
    """The labels; empty if there are none."""
    return metadata_of(item).get("labels") or {}


def is_deleting(item: Object) -> bool:
    """Has a client asked to delete it?"""
    return bool(metadata_of(item).get("deletionTimestamp"))


# Fields that are maps of texts or of amounts: an empty one is as good as none.
_TEXTS = ("labels", "annotations", "data", "binaryData", "matchLabels", "nodeSelector")
_AMOUNTS = ("limits", "requests", "capacity", "allocatable")
_MAPS = frozenset({*_TEXTS, *_AMOUNTS, "overhead"})
# The values that stand for null in them.
_ZEROS = dict.fromkeys(_TEXTS, "") | dict.fromkeys(_AMOUNTS, "0")
# Lists that are shown although they are empty.
_SHOWN_LISTS = frozenset({"rules", "verbs", "items"})


def without_empties(item: Object) -> Object:
    """A copy without lists and maps that are empty: to the API that is the same as if they were absent."""
    kept: Object = {}
    for key, value in item.items():
        if isinstance(value, dict):
            if value or key not in _MAPS:
                kept[key] = without_empties(value)
        elif isinstance(value, list):
            if value or key in _SHOWN_LISTS:
                kept[key] = [without_empties(each) if isinstance(each, dict) else each for each in value]
        else:
            kept[key] = value
    return kept


def _filled(value: Any, zero: str) -> Any:
    if not isinstance(value, dict):
        return without_nulls(value)
    return {key: zero if each is None else each for key, each in value.items()}


def without_nulls(value: Any) -> Any:
    """A copy in which fields that are null are absent: to the API both mean the zero value."""
    if isinstance(value, dict):
        return {
            key: _filled(each, _ZEROS[key]) if key in _ZEROS else without_nulls(each)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value


_WHOLE: Final = re.compile(r"([+-]?\d+)\.?(?:[eE]([+-]?\d+)|([mkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_SUFFIX: Final = {-3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# Larger values of binary suffixes are stored as this one.
_LARGEST: Final = 2**63 - 1
# Longer texts are refused, so that none costs more than it should.
_LONGEST: Final = 100


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The value of a quantity such as ``500m``, ``2Gi`` or ``1e3``. Raises ValueError for anything else."""
    if len(text) > _LONGEST:
        raise ValueError("quantities are shorter")
    value = amount_of(text.strip())
    if text.strip().endswith("i"):
        value = max(Fraction(-_LARGEST), min(Fraction(_LARGEST), value))
    return Fraction(_away(value * 1000), 1000)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """A quantity as the API server stores it: ``10000`` is ``10k``, ``1024Mi`` is ``1Gi``. Raises ValueError."""
    text = text.strip()
    value = parse(text)
    if not value:
        return "0"
    short = _shortest(text, value)
    # The same number and the same power: a sign, zeros and the form of the exponent are the writer's own.
    return text if _parts(text) == _parts(short) else short


def text_of(value: object) -> str:
    """A quantity of a manifest as text: JSON and YAML allow numbers too. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is a text or a number")
    return str(value)


def _away(value: Fraction) -> int:
    """The whole number that is next to it, away from zero."""
    return math.ceil(value) if value > 0 else math.floor(value)


def _parts(text: str) -> tuple[str, int, str] | None:
    match = _WHOLE.fullmatch(text)
    return match and (match[1].lstrip("+0"), int(match[2] or 0), match[3] or "")


def _shortest(text: str, value: Fraction) -> str:
    if text.endswith("i") and abs(value) >= 1024:
        number, power = _away(value), 0
        while number % 1024 == 0 and power < len(_BINARY) - 1:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY[power]}"
    power = next(power for power in sorted(_SUFFIX, reverse=True) if (value / Fraction(10) ** power).denominator == 1)
    mantissa = int(value / Fraction(10) ** power)
    if re.search(r"[eE][+-]?\d", text):
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_SUFFIX[power]}"
