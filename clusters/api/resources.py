"""The kinds of object that our clusters know, as data."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its place below the API root and its name in kubectl."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_status: bool = False

    @property
    def root(self) -> str:
        """``/api/v1`` or ``/apis/<group>/<version>``."""
        return f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of a subresource of one object."""
        parts = [self.root]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/".join(parts)


def _kind(text: str, *, namespaced: bool = True, has_status: bool = False) -> Resource:
    """``text``: its apiVersion, plural, kind, and short names."""
    api_version, plural, kind, *short_names = text.split()
    return Resource(api_version, plural, kind, namespaced, tuple(short_names), has_status)


_RBAC = "rbac.authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
PODS = _kind("v1 pods Pod po", has_status=True)
NODES = _kind("v1 nodes Node no", namespaced=False, has_status=True)
NAMESPACES = _kind("v1 namespaces Namespace ns", namespaced=False, has_status=True)
CONFIG_MAPS = _kind("v1 configmaps ConfigMap cm")
EVENTS = _kind("v1 events Event ev")
DEPLOYMENTS = _kind("apps/v1 deployments Deployment deploy", has_status=True)
REPLICA_SETS = _kind("apps/v1 replicasets ReplicaSet rs", has_status=True)
STATEFUL_SETS = _kind("apps/v1 statefulsets StatefulSet sts", has_status=True)
DAEMON_SETS = _kind("apps/v1 daemonsets DaemonSet ds", has_status=True)
JOBS = _kind("batch/v1 jobs Job", has_status=True)
LEASES = _kind("coordination.k8s.io/v1 leases Lease")
SERVICE_ACCOUNTS = _kind("v1 serviceaccounts ServiceAccount sa")
ROLES = _kind(f"{_RBAC} roles Role")
ROLE_BINDINGS = _kind(f"{_RBAC} rolebindings RoleBinding")
CLUSTER_ROLES = _kind(f"{_RBAC} clusterroles ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _kind(f"{_RBAC} clusterrolebindings ClusterRoleBinding", namespaced=False)
PRIORITY_CLASSES = _kind("scheduling.k8s.io/v1 priorityclasses PriorityClass pc", namespaced=False)
SECRETS = _kind("v1 secrets Secret")
SERVICES = _kind("v1 services Service svc", has_status=True)
POD_DISRUPTION_BUDGETS = _kind("policy/v1 poddisruptionbudgets PodDisruptionBudget pdb", has_status=True)
RESOURCE_QUOTAS = _kind("v1 resourcequotas ResourceQuota quota", has_status=True)
MUTATING_ADMISSION_POLICIES = _kind(f"{_ADMISSION} mutatingadmissionpolicies MutatingAdmissionPolicy", namespaced=False)
MUTATING_ADMISSION_POLICY_BINDINGS = _kind(
    f"{_ADMISSION} mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding", namespaced=False
)
VALIDATING_ADMISSION_POLICIES = _kind(
    f"{_ADMISSION} validatingadmissionpolicies ValidatingAdmissionPolicy", namespaced=False, has_status=True
)
VALIDATING_ADMISSION_POLICY_BINDINGS = _kind(
    f"{_ADMISSION} validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding", namespaced=False
)

ALL = tuple(kind for kind in globals().values() if isinstance(kind, Resource))
BY_KIND = {(resource.api_version, resource.kind): resource for resource in ALL}


def resource_of(manifest: dict[str, object]) -> Resource:
    """The kind of a manifest. Raises ValueError for one that our clusters do not know."""
    key = (str(manifest.get("apiVersion", "")), str(manifest.get("kind", "")))
    if key not in BY_KIND:
        known = ", ".join(f"{version} {kind}" for version, kind in BY_KIND)
        raise ValueError(f"kind {key[1]!r} of apiVersion {key[0]!r} is not known here (known: {known})")
    return BY_KIND[key]
