"""Whole amounts as Kubernetes writes them: the API server answers ``2k`` for ``2000``, which ``int`` cannot read. Pure."""

from __future__ import annotations

from typing import Final

from clusters.amounts import amount_of

# Quantities are of an int64 in Kubernetes.
_MOST: Final = 2**63 - 1


def whole_number(quantity: object) -> int:
    """The number that ``14``, ``2k``, ``1Ki`` or ``5e3`` stands for, or a bare number of JSON. Raises ValueError for 1.5 and -1."""
    number = amount_of(str(quantity))
    if number.denominator != 1 or not 0 <= number <= _MOST:
        raise ValueError(f"{str(quantity)!r} is not a whole number")
    return number.numerator
