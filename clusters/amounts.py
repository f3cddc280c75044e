"""Amounts of resources as Kubernetes writes them, and what a pod asks of its node. Pure.

Kubelet and scheduler count alike: cpu in thousandths, everything else in its own unit, rounded up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

Amounts = dict[str, int]

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?", re.ASCII)
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_RESOURCE: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


@lru_cache(maxsize=4096)
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


def amounts_of(quantities: Mapping[str, object] | None) -> Amounts:
    """The counts of a map such as ``status.allocatable``. Raises ValueError, which names the resource."""
    return {name: _count(name, str(quantity)) for name, quantity in (quantities or {}).items()}


def _count(resource: str, quantity: str) -> int:
    try:
        return math.ceil(amount_of(quantity) * (1000 if resource == "cpu" else 1))
    except ValueError as error:
        raise ValueError(f"{resource}: {error}") from error


def requests_of(pod: Mapping[str, Any]) -> Amounts:
    """The counts that a pod asks of its node, its overhead included.

    Containers add up. An ordinary init container runs alone, so the largest counts; a restartable one (a sidecar) stays
    and adds to everything that starts after it. A limit without a request is a request, as the API server defaults it.
    """
    spec = pod["spec"]
    running = total(_requested(each) for each in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _requested(container)
        if container.get("restartPolicy") == "Always":
            running = total((running, own))
            sidecars = total((sidecars, own))
        else:
            starting = _largest(starting, total((own, sidecars)))
    return total((_largest(running, starting), amounts_of(spec.get("overhead"))))


def _requested(container: Mapping[str, Any]) -> Amounts:
    resources = container.get("resources") or {}
    return amounts_of({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def total(parts: Iterable[Amounts]) -> Amounts:
    """The sum by resource."""
    result: Amounts = {}
    for part in parts:
        for name, value in part.items():
            result[name] = result.get(name, 0) + value
    return result


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def is_extended_resource(name: str) -> bool:
    """Whether a resource is one that a plugin or an operator may define: its domain is not Kubernetes' own."""
    domain = name.partition("/")[0]
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests."):
        return False
    return _RESOURCE.fullmatch(name) is not None
