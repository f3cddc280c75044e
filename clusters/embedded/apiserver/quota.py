"""Limits of a namespace as a whole: ResourceQuotas of pods and of their requests. Pure.

Counted are ``pods``, ``cpu`` and ``memory`` (with and without ``requests.``), and requests of any other resource, as
``requests.aliyun.com/gpu-mem``. A quota of anything else is refused; scopes are not imitated.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from clusters.amounts import requests_of
from clusters.api.resources import PODS
from clusters.embedded.apiserver.api_objects import Object, name_of
from clusters.embedded.apiserver.api_quantities import canonical, parse
from clusters.embedded.apiserver.field_rules import not_allowed
from clusters.embedded.apiserver.refusals import FieldError, RefusalError, forbidden

_REQUESTS: Final = "requests."
_COMPUTE: Final = ("cpu", "memory")
_ENDED: Final = ("Succeeded", "Failed")

Usage = dict[str, Fraction]


def usage_of(pods: Iterable[Object], names: Iterable[str]) -> Usage:
    """The use of the resources that a quota names, by pods; those that have ended use nothing."""
    used: Usage = {name: Fraction(0) for name in names}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            for name in used:
                used[name] += _amount(pod, name)
    return used


def check(quota: Object, pods: Iterable[Object], pod: Object) -> None:
    """Refuse (403) a pod that names too few requests for a quota, or asks for more than it leaves."""
    hard: Usage = {name: parse(value) for name, value in hard_of(quota).items()}
    unsaid = [f"{name} for: {','.join(found)}" for name in sorted(hard) if (found := _silent(pod, name))]
    if unsaid:
        raise forbidden(PODS, name_of(pod), f"failed quota: {name_of(quota)}: must specify {'; '.join(unsaid)}")
    used, asked = usage_of(pods, hard), usage_of([pod], hard)
    over = [name for name in sorted(hard) if asked[name] and used[name] + asked[name] > hard[name]]
    if over:
        raise _exceeded(quota, pod, over, (asked, used, hard))


def hard_of(quota: Object) -> dict[str, str]:
    """The limits of a quota."""
    return (quota.get("spec") or {}).get("hard") or {}


def faults(quota: Object) -> list[FieldError]:
    """Names that are not counted here: a limit that does nothing must not look as if it held."""
    odd = [name for name in hard_of(quota) if not _is_counted(name)]
    return [not_allowed(f"spec.hard[{name}]", "the embedded cluster does not imitate it") for name in odd]


def written(used: Usage) -> dict[str, str]:
    """Amounts as the API writes them."""
    return {name: _text(value) for name, value in used.items()}


def _exceeded(quota: Object, pod: Object, names: list[str], shown: tuple[Usage, Usage, Usage]) -> RefusalError:
    asked, used, hard = (",".join(f"{name}={_text(amounts[name])}" for name in names) for amounts in shown)
    why = f"exceeded quota: {name_of(quota)}, requested: {asked}, used: {used}, limited: {hard}"
    return forbidden(PODS, name_of(pod), why)


def _is_counted(name: str) -> bool:
    return name == "pods" or name in _COMPUTE or name.startswith(_REQUESTS)


def _amount(pod: Object, name: str) -> Fraction:
    """The use of one pod; ``requests.cpu`` and ``cpu`` are the same."""
    if name == "pods":
        return Fraction(1)
    resource = name.removeprefix(_REQUESTS)
    amount = Fraction(requests_of(pod).get(resource, 0))
    return amount / 1000 if resource == "cpu" else amount


def _silent(pod: Object, name: str) -> list[str]:
    """Containers that do not say how much they need of cpu or memory."""
    resource = name.removeprefix(_REQUESTS)
    containers = [*pod["spec"].get("containers", []), *pod["spec"].get("initContainers", [])]
    return [
        str(each.get("name"))
        for each in containers
        if resource in _COMPUTE and resource not in ((each.get("resources") or {}).get("requests") or {})
    ]


def _text(value: Fraction) -> str:
    return canonical(f"{int(value * 1000)}m")
