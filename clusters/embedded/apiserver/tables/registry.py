"""Which columns a kind has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.tables import core, event_table, node_table, pod_table, policy, workloads
from clusters.embedded.apiserver.tables.columns import CREATED_AT, NAME, Column

# A kind without columns of its own.
GENERIC: Final = (NAME, CREATED_AT)
# By apiVersion and kind.
COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("v1", "Pod"): pod_table.COLUMNS,
    ("v1", "Node"): node_table.COLUMNS,
    ("v1", "Namespace"): core.NAMESPACES,
    ("v1", "ConfigMap"): core.CONFIG_MAPS,
    ("v1", "Secret"): core.SECRETS,
    ("v1", "ServiceAccount"): core.SERVICE_ACCOUNTS,
    ("v1", "Service"): core.SERVICES,
    ("v1", "Endpoints"): core.ENDPOINTS,
    ("v1", "Event"): event_table.COLUMNS,
    ("v1", "ResourceQuota"): policy.RESOURCE_QUOTAS,
    ("events.k8s.io/v1", "Event"): event_table.COLUMNS,
    ("apps/v1", "Deployment"): workloads.DEPLOYMENTS,
    ("apps/v1", "ReplicaSet"): workloads.REPLICA_SETS,
    ("apps/v1", "StatefulSet"): workloads.STATEFUL_SETS,
    ("apps/v1", "DaemonSet"): workloads.DAEMON_SETS,
    ("apps/v1", "ControllerRevision"): workloads.CONTROLLER_REVISIONS,
    ("batch/v1", "Job"): workloads.JOBS,
    ("batch/v1", "CronJob"): workloads.CRON_JOBS,
    ("autoscaling/v1", "Scale"): workloads.SCALES,
    ("coordination.k8s.io/v1", "Lease"): core.LEASES,
    ("discovery.k8s.io/v1", "EndpointSlice"): core.ENDPOINT_SLICES,
    ("policy/v1", "PodDisruptionBudget"): policy.POD_DISRUPTION_BUDGETS,
    ("scheduling.k8s.io/v1", "PriorityClass"): policy.PRIORITY_CLASSES,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): policy.ROLE_BINDINGS,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): policy.ROLE_BINDINGS,
}
_ROW_CONDITIONS: Final[Mapping[tuple[str, str], Callable[[Object], list[Object]]]] = {
    ("v1", "Pod"): pod_table.row_conditions,
}


def columns_of(api_version: str, kind: str) -> tuple[Column, ...]:
    """The columns of a kind."""
    return COLUMNS.get((api_version, kind), GENERIC)


def row_conditions(item: Object) -> list[Object]:
    """The conditions of an object's row."""
    show = _ROW_CONDITIONS.get((item.get("apiVersion", ""), item.get("kind", "")))
    return show(item) if show else []
