"""Amounts of resources as Kubernetes writes them, and what a pod asks in all. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from clusters.kubelet.pods import Container, Kind, Object, containers_of

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?")
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount_of(text: str) -> Fraction:
    """The number that a quantity (``14``, ``500m``, ``1Gi``, ``2e3``) stands for. Raises ValueError for other texts."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 14, 500m or 1Gi")
    number, exponent, suffix = match.groups()
    if suffix in _BINARY:
        return Fraction(number) * (1 << _BINARY[suffix])
    power = int(exponent) if exponent else _POWERS.get(suffix or "", 0)
    return Fraction(number) * (Fraction(10**power) if power >= 0 else Fraction(1, 10**-power))


def is_extended(resource: str) -> bool:
    """Whether a resource is none of Kubernetes' own: it has a domain, and the domain is not theirs."""
    return "/" in resource and "kubernetes.io/" not in resource


def requests_of(pod: Object) -> dict[str, Fraction]:
    """The amounts that a pod asks of its node.

    The containers and sidecars that run together, or, if that is more, the hungriest moment of its start: an
    ordinary init container beside the sidecars that started before it.
    """
    running: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for container in containers_of(pod):
        amounts = _requests(container)
        if container.kind is Kind.INIT:
            amounts = {name: running.get(name, Fraction(0)) + amount for name, amount in amounts.items()}
        else:
            running |= {name: running.get(name, Fraction(0)) + amount for name, amount in amounts.items()}
            amounts = running
        most = {name: max(most.get(name, Fraction(0)), amounts.get(name, Fraction(0))) for name in most | amounts}
    return most


def _requests(container: Container) -> Mapping[str, Fraction]:
    return {name: amount_of(text) for name, text in container.requests.items()}
