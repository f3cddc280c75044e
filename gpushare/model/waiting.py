"""Which pods wait for a card, as the API server shows them. Pure.

An extender is asked only about the nodes that pass kube-scheduler's own filters. If none passes, the pod waits without a question
to the extender. A pod waits from its creation on.
"""

from __future__ import annotations

from typing import NamedTuple

from gpushare import wire
from gpushare.errors import InvalidQuantityError
from gpushare.manifests import Pod
from gpushare.model.conditions import seconds_of
from gpushare.model.pod import Amount, all_containers, ends_by_phase, is_deleting, scheduler_report
from gpushare.model.quantity import parse_units

DEFAULT_SCHEDULER = "default-scheduler"


class Wait(NamedTuple):
    """How a pod waits.

    ``since`` is its creation in seconds since 1970, None if that cannot be read. ``is_gated``: no scheduler may look at it yet.
    ``scheduler`` is the name of its scheduler; ``reason`` and ``message`` are that scheduler's last report, "" if it made none.
    """

    since: float | None
    is_gated: bool
    scheduler: str
    reason: str
    message: str


def wait_of(pod: Pod) -> Wait | None:
    """How the pod waits for a card, or None.

    It waits if it is not bound, has not ended, is not being deleted, and a container asks for an amount of one of our resources.
    An amount that cannot be read counts.
    """
    spec = pod.spec
    if spec.node_name or is_deleting(pod) or ends_by_phase(pod) or not _asks(pod):
        return None
    report = scheduler_report(pod.status)
    reason, message = ("", "") if report is None else (report.reason or "", report.message or "")
    since = seconds_of(pod.metadata.creation_timestamp)
    return Wait(since, bool(spec.scheduling_gates), spec.scheduler_name or DEFAULT_SCHEDULER, reason, message)


def _asks(pod: Pod) -> bool:
    resources = (one.resources for one in all_containers(pod) if one.resources)
    amounts = (amounts for one in resources for amounts in (one.limits, one.requests) if amounts)
    return any(
        name.startswith(wire.RESOURCE_PREFIX) and _is_some(amount) for each in amounts for name, amount in each.items()
    )


def _is_some(amount: Amount) -> bool:
    try:
        return parse_units(amount) > 0
    except InvalidQuantityError:
        return True
