"""Quantities as the scheduler counts them: whole numbers, rounded up."""

from __future__ import annotations

from decimal import ROUND_CEILING

from clusters.embedded.apiserver.api_quantities import parse


def amount(resource: str, quantity: object) -> int:
    """How much of ``resource`` a quantity is: cpu in thousandths, everything else in its own unit; rounded up.

    Raises ValueError, which names the resource, for what is no quantity.
    """
    try:
        value = parse(str(quantity))
    except ValueError as error:
        raise ValueError(f"{resource}: {quantity!r} is no Kubernetes quantity (such as 2, 500m, 1.5Gi)") from error
    if resource == "cpu":
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: dict[str, object] | None) -> dict[str, int]:
    """``amount`` of each resource of a list such as ``status.allocatable`` or ``resources.requests``."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}
