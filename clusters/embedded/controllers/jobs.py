"""The next writes of a Job's controller. Pure, level-triggered: the same picture at the same time gives the same writes.

Simpler than the real one if no pod of ours can notice: a failed pod is followed by the next without a wait; pods are counted
while they exist and have no finalizer, so a pod that a client deletes after its end counts no more than the status has counted
it. Completion by index is refused by the API server; a suspended Job is passed over, with an error in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from clusters.api.resources import JOBS, PODS
from clusters.embedded.apiserver.update_rules import rfc3339
from clusters.embedded.controllers.desired import (
    Action,
    Create,
    Delete,
    Object,
    child,
    is_active,
    is_ready,
    least_worth,
    leaving,
    status_patch,
)

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"


def job(owner: Object, pods: Sequence[Object], now: datetime) -> list[Action]:
    """Run pods (``pods`` are the Job's own) until enough have succeeded, too many have failed, or the time is over."""
    spec, status = owner["spec"], owner.get("status") or {}
    active = [pod for pod in pods if is_active(pod)]
    ended = _condition(owner, COMPLETE) or _condition(owner, FAILED)
    if ended:
        return leaving(active) + _expired(owner, ended, now)
    succeeded = max(status.get("succeeded", 0), _count(pods, "Succeeded"))
    failed = max(status.get("failed", 0), _count(pods, "Failed"))
    if spec["suspend"]:
        raise ValueError("suspended Jobs are not imitated")
    started = status.get("startTime") or rfc3339(now)
    failure = _failure(owner, active, failed, started, now)
    if failure is not None:
        return leaving(active) + _status(owner, pods, succeeded, failed, failure, started)
    wanted = _wanted(spec, succeeded, len(active))
    if wanted == 0 and not active:
        return _status(owner, pods, succeeded, failed, _completed(now), started, completionTime=rfc3339(now))
    actions = leaving(least_worth(active)[: max(len(active) - wanted, 0)])
    name = {"generateName": f"{owner['metadata']['name']}-"}
    actions += [Create(child(owner, PODS, name, spec["template"])) for _ in range(wanted - len(active))]
    return actions + _status(owner, pods, succeeded, failed, [], started)


def depends_on_time(owner: Object) -> bool:
    """Can a Job ask for something only because time has passed?"""
    ended = _condition(owner, COMPLETE) or _condition(owner, FAILED)
    return ("ttlSecondsAfterFinished" if ended else "activeDeadlineSeconds") in owner["spec"]


def _wanted(spec: Object, succeeded: int, active: int) -> int:
    """The number of pods that should be active."""
    if "completions" in spec:
        return int(max(min(spec["parallelism"], spec["completions"] - succeeded), 0))
    # A work queue: once a pod has succeeded the others finish, and no new one comes.
    return active if succeeded else int(spec["parallelism"])


def _failure(owner: Object, active: Sequence[Object], failed: int, started: str, now: datetime) -> list[Object] | None:
    """The conditions of a Job that has failed; None if it has not."""
    spec = owner["spec"]
    restarts = 0
    if spec["template"]["spec"]["restartPolicy"] == "OnFailure":
        restarts = sum(one.get("restartCount", 0) for pod in active for one in _containers(pod))
    if failed + restarts > spec["backoffLimit"]:
        text = "Job has reached the specified backoff limit"
        return [_met(kind, "BackoffLimitExceeded", text, now) for kind in ("FailureTarget", FAILED)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and now >= datetime.fromisoformat(started) + timedelta(seconds=deadline):
        text = "Job was active longer than specified deadline"
        return [_met(kind, "DeadlineExceeded", text, now) for kind in ("FailureTarget", FAILED)]
    return None


def _completed(now: datetime) -> list[Object]:
    text = "Reached expected number of succeeded pods"
    return [_met(kind, "CompletionsReached", text, now) for kind in ("SuccessCriteriaMet", COMPLETE)]


def _expired(owner: Object, ended: Object, now: datetime) -> list[Action]:
    """A Job that has ended goes with its pods, once the time that its author gave it is over."""
    seconds = owner["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or now < datetime.fromisoformat(ended["lastTransitionTime"]) + timedelta(seconds=seconds):
        return []
    return [Delete(JOBS, owner)]


def _status(
    owner: Object,
    pods: Sequence[Object],
    succeeded: int,
    failed: int,
    conditions: list[Object],
    started: str,
    **more: str,
) -> list[Action]:
    active = [pod for pod in pods if is_active(pod)]
    is_over = any(one["type"] == FAILED for one in conditions)
    leaving = sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in pods)
    before = owner.get("status") or {}
    counts = {"active": 0 if is_over else len(active), "succeeded": succeeded, "failed": failed}
    # The real API leaves these out while they are 0.
    status: Object = {key: count or None for key, count in counts.items() if count or key in before}
    status |= {
        "startTime": started,
        "ready": 0 if is_over else sum(map(is_ready, active)),
        "terminating": leaving,
        "uncountedTerminatedPods": {},
    }
    status |= {"conditions": conditions} if conditions or "conditions" in before else {}
    return status_patch(JOBS, owner, **status, **more)


def _condition(owner: Object, kind: str) -> Object | None:
    """A condition that is met."""
    conditions = (owner.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind and one["status"] == "True"), None)


def _met(kind: str, reason: str, message: str, now: datetime) -> Object:
    at = rfc3339(now)
    return {
        "type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": at, "lastTransitionTime": at,
    }  # fmt: skip


def _count(pods: Iterable[Object], phase: str) -> int:
    return sum(pod["status"].get("phase") == phase for pod in pods)


def _containers(pod: Object) -> list[Object]:
    return [*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())]
