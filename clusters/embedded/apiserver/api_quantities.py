"""Kubernetes quantities and the one way of writing each that the API server stores. Pure.

Rules: apimachinery ``api/resource`` Quantity: the family of suffixes is kept, the number has no fraction, the
suffix is the largest that allows this; finer than a thousandth is rounded away from zero. A text with no
digits after its point, and the right suffix, stays as it was written.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from clusters.amounts import amount_of

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
