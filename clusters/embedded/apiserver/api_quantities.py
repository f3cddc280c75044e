"""Kubernetes quantities and the one way of writing each that the API server stores. Pure.

Rules: apimachinery ``api/resource`` Quantity: the family of suffixes is kept, the number has no fraction, the
suffix is the largest that allows this; finer than a thousandth is rounded away from zero. A text with no
digits after its point, and the right suffix, stays as it was written.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_WHOLE: Final = re.compile(r"([+-]?\d+)\.?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
# Larger values of binary suffixes are stored as this one.
_LARGEST: Final = Decimal(2**63 - 1)
_SMALLEST: Final = Decimal("1e-3")
_EXACT: Final = Context(prec=400)
# Longer numbers are refused, so that no text costs more than it should.
_LONGEST: Final = 100


@lru_cache(maxsize=4096)
def parse(text: str) -> Decimal:
    """The value of a quantity such as ``500m``, ``2Gi`` or ``1e3``. Raises ValueError for anything else."""
    match = _FORM.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    number, exponent, suffix = match.groups()
    value = Decimal(number)
    if exponent:
        value = _EXACT.scaleb(value, max(-100, min(100, int(exponent))))
    elif suffix in _BINARY:
        value = _EXACT.multiply(value, Decimal(1024 ** _BINARY.index(suffix)))
        if suffix:
            value = max(-_LARGEST, min(_LARGEST, value))
    else:
        value = _EXACT.scaleb(value, _DECIMAL[suffix or ""])
    return value.quantize(_SMALLEST, ROUND_UP, context=_EXACT)


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


def _parts(text: str) -> tuple[str, int, str] | None:
    match = _WHOLE.fullmatch(text)
    return match and (match[1].lstrip("+0"), int(match[2] or 0), match[3] or "")


def _shortest(text: str, value: Decimal) -> str:
    if text.endswith("i") and abs(value) >= 1024:
        return _binary(int(value.to_integral_value(ROUND_CEILING if value > 0 else ROUND_UP)))
    power = next(power for power in range(18, -12, -3) if _is_whole(value, power))
    mantissa = int(_EXACT.scaleb(value, -power))
    if re.search(r"[eE][+-]?\d", text):
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_SUFFIX[power]}"


def text_of(value: object) -> str:
    """A quantity of a manifest as text: JSON and YAML allow numbers too. Raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is a text or a number")
    return format(Decimal(repr(value)), "f") if isinstance(value, float) else str(value)


def _is_whole(value: Decimal, power: int) -> bool:
    scaled = _EXACT.scaleb(value, -power)
    return scaled == scaled.to_integral_value()


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < len(_BINARY) - 1:
        number //= 1024
        power += 1
    return f"{number}{_BINARY[power]}"
