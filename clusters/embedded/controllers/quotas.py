"""The use that the quotas of a namespace show, counted again whenever a pod comes, ends or goes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.api.resources import RESOURCE_QUOTAS
from clusters.embedded.apiserver.quota import hard_of, usage_of, written
from clusters.embedded.controllers.actions import Action, Object, Patch


def counted(quotas: Sequence[Object], pods: Sequence[Object]) -> list[Action]:
    """Writes of the status of quotas that show another use than the counted one."""
    actions: list[Action] = []
    for quota in quotas:
        namespace, hard = quota["metadata"]["namespace"], hard_of(quota)
        mine = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
        status = {"hard": hard, "used": written(usage_of(mine, hard))}
        known = quota.get("status") or {}
        if any((known.get(key) or {}) != value for key, value in status.items()):
            gone = {key: {name: None for name in known.get(key) or {} if name not in status[key]} for key in status}
            patch = {"status": {key: {**gone[key], **status[key]} for key in status}}
            actions.append(Patch(RESOURCE_QUOTAS, quota, patch, "status"))
    return actions
