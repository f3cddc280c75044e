"""Kubernetes quantities as the scheduler counts them: whole numbers, rounded up."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{letter + "i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


@lru_cache(maxsize=4096)
def parse(text: str) -> Decimal:
    """The value of a quantity such as ``500m``, ``2Gi`` or ``1e3``. Raises ValueError for anything else."""
    match = FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no Kubernetes quantity (examples: 2, 500m, 1.5Gi, 1e3)")
    number, exponent, suffix = match.groups()
    scale = Decimal(10) ** int(exponent) if exponent else SUFFIXES[suffix or ""]
    return Decimal(number) * scale


def amount(resource: str, quantity: object) -> int:
    """How much of ``resource`` a quantity is: cpu in thousandths, everything else in its own unit; rounded up."""
    value = parse(str(quantity))
    if resource == "cpu":
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: dict[str, object] | None) -> dict[str, int]:
    """``amount`` of each resource of a list such as ``status.allocatable`` or ``resources.requests``."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}
