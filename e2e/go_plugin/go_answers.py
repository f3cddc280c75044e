"""How the original's device plugin answers Allocate: by amount and age, to the letter of what was recorded of it. Pure.

It has nothing but a number of ids. The pod is the one that waits longest of those whose whole request is that number; a pod of
several containers is therefore never found, and if two pods ask for the same it is a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from e2e import spec
from e2e.quantities import whole_number

Pod = Mapping[str, Any]


def ids_of(uuids: Iterable[str], units: int) -> list[str]:
    """Its list: this number of ids for each card, all cards as large as the first."""
    return [f"{uuid}-_-{number}" for uuid in uuids for number in range(units)]


def candidate(pods: Iterable[Pod], units: int) -> Pod | None:
    """The pod that it takes a question for this number of ids to be about: the oldest by assume time, not yet assigned."""
    waiting = [pod for pod in pods if _is_assumed(pod) and _asked(pod) == units]
    return min(waiting, key=lambda pod: int(_annotations(pod)[spec.POD_ASSUME_TIME]), default=None)


def variables(pod: Pod | None, units: int, card_units: int) -> dict[str, str]:
    """The container's variables; if no pod was found the container still starts, with a text in place of a card."""
    index = "-1" if pod is None else _annotations(pod)[spec.POD_INDEX]
    return {
        spec.ENV_VISIBLE: f"no-gpu-has-{units}GiB-to-run" if pod is None else index,
        spec.ENV_INDEX: index,
        spec.ENV_POD_UNITS: str(units),
        spec.ENV_CONTAINER_UNITS: str(units),
        spec.ENV_DEVICE_UNITS: str(card_units),
    }


def assigned(now_seconds: float) -> dict[str, str]:
    """Its annotations on the pod: the flag, and the time again."""
    return {spec.POD_ASSIGNED: "true", spec.POD_ASSUME_TIME: str(int(now_seconds * 1e9))}


def _annotations(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _is_assumed(pod: Pod) -> bool:
    written = _annotations(pod)
    return spec.POD_ASSUME_TIME in written and written.get(spec.POD_ASSIGNED) == "false" and spec.POD_INDEX in written


def _asked(pod: Pod) -> int:
    """The sum over its containers, init containers apart."""
    limits = [(one.get("resources") or {}).get("limits") or {} for one in pod["spec"]["containers"]]
    return sum(whole_number(one.get(spec.RESOURCE_MEMORY, 0)) for one in limits)
