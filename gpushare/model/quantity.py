"""Kubernetes quantities as numbers, and the unit of card memory.

The API server canonicalises quantities (``10000`` comes back as ``10k``), so ``int()`` is never the parser. The
grammar is that of apimachinery's ``resource.Quantity``: a signed decimal number, then a binary suffix (Ki … Ei), a
decimal suffix (n … E) or a decimal exponent (``1e3``).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from gpushare.bounds import QUANTITY_TEXT
from gpushare.errors import InvalidQuantityError

_NUMBER: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)
_BINARY: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {
    suffix: Fraction(10) ** power
    for suffix, power in (
        ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18),
    )
}  # fmt: skip
# A quantity is an int64 in Kubernetes; larger ones are refused, not wrapped.
LARGEST: Final = 2**63 - 1

MIB_PER_GIB: Final = 1024


def is_number(text: str) -> bool:
    """Decimal ASCII digits only, and no more than an int64 has.

    ``int()`` would also take blanks, signs, underscores and other scripts, and refuses thousands of digits.
    """
    return text.isascii() and text.isdigit() and len(text) <= 19


def parse_quantity(text: str | float) -> Fraction:
    """The exact value of a quantity such as ``10k``, ``1Ki``, ``1e3``, ``0.5`` or a bare JSON number.

    Raises InvalidQuantityError for anything that Kubernetes would not parse.
    """
    written = str(text)
    match = None if QUANTITY_TEXT.exceeded(len(written)) else _NUMBER.fullmatch(written)
    if match is None:
        raise InvalidQuantityError(
            f"{written[: QUANTITY_TEXT.most]!r} is not a quantity (expected a number such as 3, 10k or 1Ki)"
        )
    sign, digits, binary, decimal, exponent = match.groups()
    value = Fraction(digits)
    if binary is not None:
        value *= _BINARY[binary]
    elif decimal is not None:
        value *= _DECIMAL[decimal]
    elif exponent is not None:
        value *= Fraction(10) ** int(exponent)
    return -value if sign == "-" else value


# The same few numbers come with every question.
@lru_cache(maxsize=4096)
def parse_units(text: str | float) -> int:
    """A quantity of an extended resource: whole and not negative.

    Raises InvalidQuantityError for ``1.5``, ``-1``, more than an int64, or no quantity at all. (The API server
    refuses these in a pod; a hand-written request to the extender, or a status patched by hand, can still carry
    them.)
    """
    value = parse_quantity(text)
    if value.denominator != 1 or not 0 <= value <= LARGEST:
        raise InvalidQuantityError(f"{text!r} is not a whole, non-negative number of units")
    return value.numerator


@lru_cache(maxsize=4096)
def parse_milli(text: str | float) -> int:
    """Thousandths, rounded up as Kubernetes does: of ``500m`` and of ``0.5`` 500; 0 for what is no quantity or negative."""
    try:
        return min(max(math.ceil(parse_quantity(text) * 1000), 0), LARGEST)
    except InvalidQuantityError:
        return 0


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """How much memory one unit of ``aliyun.com/gpu-mem`` is on a node, in MiB (1024² bytes)."""

    mib: int

    @classmethod
    def parse(cls, text: str) -> MemoryUnit:
        """``GiB``, ``MiB``, or a number of MiB such as ``256MiB``. Raises InvalidQuantityError for anything else."""
        match = re.fullmatch(r"([0-9]{0,6})(MiB|GiB)", text)
        mib = int(match[1] or 1) * (MIB_PER_GIB if match[2] == "GiB" else 1) if match else 0
        if mib == 0:
            raise InvalidQuantityError(
                f"{text!r} is not a memory unit (expected GiB, MiB or a number of MiB such as 256MiB)"
            )
        return cls(mib)

    def __str__(self) -> str:
        """The name that ``parse`` reads back: ``GiB`` and ``MiB`` if they are exact."""
        if self.mib == MIB_PER_GIB:
            return "GiB"
        return "MiB" if self.mib == 1 else f"{self.mib}MiB"

    def units_of(self, mib: int) -> int:
        """Whole units in ``mib`` MiB of a card; the remainder cannot be shared."""
        return mib // self.mib
