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


PODS = Resource("v1", "pods", "Pod", short_names=("po",), has_status=True)
NODES = Resource("v1", "nodes", "Node", namespaced=False, short_names=("no",), has_status=True)
NAMESPACES = Resource("v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",), has_status=True)
CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap", short_names=("cm",))
EVENTS = Resource("v1", "events", "Event", short_names=("ev",))
DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment", short_names=("deploy",), has_status=True)
REPLICA_SETS = Resource("apps/v1", "replicasets", "ReplicaSet", short_names=("rs",), has_status=True)
STATEFUL_SETS = Resource("apps/v1", "statefulsets", "StatefulSet", short_names=("sts",), has_status=True)
DAEMON_SETS = Resource("apps/v1", "daemonsets", "DaemonSet", short_names=("ds",), has_status=True)
JOBS = Resource("batch/v1", "jobs", "Job", has_status=True)
LEASES = Resource("coordination.k8s.io/v1", "leases", "Lease")
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount", short_names=("sa",))
ROLES = Resource("rbac.authorization.k8s.io/v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)
)
SECRETS = Resource("v1", "secrets", "Secret")
SERVICES = Resource("v1", "services", "Service", short_names=("svc",), has_status=True)
POD_DISRUPTION_BUDGETS = Resource(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",), has_status=True
)
RESOURCE_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota", short_names=("quota",), has_status=True)
MUTATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", namespaced=False
)
MUTATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
    has_status=True,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
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
