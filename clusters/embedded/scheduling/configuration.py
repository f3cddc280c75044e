"""A KubeSchedulerConfiguration, read as strictly as kube-scheduler reads it, as far as a scheduler extender can notice it.

The fields have the names of the file in Python's spelling. Fields that this scheduler does not imitate (plugins, parallelism)
are refused, except those without an effect on its decisions that our own files have.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from clusters.amounts import is_extended_resource
from clusters.api.api_client import Object
from clusters.embedded.apiserver.api_objects import without_nulls

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
# Seconds that one call may take if httpTimeout is 0 or absent; from connecting to the last byte of the answer.
DEFAULT_TIMEOUT_SECONDS: Final = 5.0
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")

Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]


class ConfigurationError(ValueError):
    """A configuration that kube-scheduler would refuse; the text names the field and the rule."""


class _Fields(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping of the file: other fields, other types and another case are refused."""


class TLSConfiguration(_Fields, frozen=True, kw_only=True):
    """How to speak TLS to an extender; ``*_data`` is PEM (base64 in the file) and wins over the file of the same name."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ManagedResource(_Fields, frozen=True, kw_only=True):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderConfiguration(_Fields, frozen=True, kw_only=True):
    """One extender. An empty verb means that the extender does not take part in that step."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls: TLSConfiguration | None = msgspec.field(default=None, name="tlsConfig")
    http_timeout: str = "0s"
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    def __post_init__(self) -> None:
        """Refuse a timeout that is no duration."""
        seconds_of(self.http_timeout)

    @property
    def timeout_seconds(self) -> float:
        """The longest that one call may take."""
        return seconds_of(self.http_timeout) or DEFAULT_TIMEOUT_SECONDS

    def is_interested(self, pod: Object) -> bool:
        """Whether any container or init container names a managed resource, in requests or limits, even with 0.

        An extender that manages nothing is interested in every pod.
        """
        if not self.managed_resources:
            return True
        managed = {resource.name for resource in self.managed_resources}
        containers = [*(pod["spec"].get("containers") or []), *(pod["spec"].get("initContainers") or [])]
        return any(not managed.isdisjoint(named_resources(container)) for container in containers)


class ScoredResource(_Fields, frozen=True, kw_only=True):
    """A resource that counts in a node's score, and by how much."""

    name: str
    weight: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1


class ScoringStrategy(_Fields, frozen=True, kw_only=True):
    """Prefer nodes that are emptier, or fuller, by these resources. Not imitated: RequestedToCapacityRatio."""

    type: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    resources: tuple[ScoredResource, ...] = (ScoredResource(name="cpu"), ScoredResource(name="memory"))


class FitArguments(_Fields, frozen=True, kw_only=True):
    """The arguments of NodeResourcesFit."""

    api_version: str = API_VERSION
    kind: str = "NodeResourcesFitArgs"
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class PluginConfiguration(_Fields, frozen=True, kw_only=True):
    """The arguments of a plugin. Those of other plugins are refused, because they are not imitated."""

    name: Literal["NodeResourcesFit"]
    args: FitArguments = FitArguments()


class Profile(_Fields, frozen=True, kw_only=True):
    """One scheduler name that pods may ask for; without a percentage the global one counts."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: Percentage | None = None
    plugin_config: tuple[PluginConfiguration, ...] = ()

    @property
    def scoring(self) -> ScoringStrategy:
        """How nodes are scored by their resources."""
        return self.plugin_config[0].args.scoring_strategy if self.plugin_config else ScoringStrategy()


class Configuration(_Fields, frozen=True, kw_only=True):
    """A whole configuration."""

    api_version: str = API_VERSION
    kind: str = KIND
    extenders: tuple[ExtenderConfiguration, ...] = ()
    profiles: tuple[Profile, ...] = (Profile(),)
    percentage_of_nodes_to_score: Percentage = 0
    initial_backoff_seconds: float = msgspec.field(default=1, name="podInitialBackoffSeconds")
    max_backoff_seconds: float = msgspec.field(default=10, name="podMaxBackoffSeconds")
    leader_election: dict[str, Any] = {}
    client_connection: dict[str, Any] = {}

    @property
    def extenders_in_order(self) -> tuple[ExtenderConfiguration, ...]:
        """The order of the calls: as written, but ignorable extenders last."""
        return tuple(sorted(self.extenders, key=lambda extender: extender.ignorable))

    @property
    def ignored_resources(self) -> frozenset[str]:
        """Resources that the in-tree resource filter leaves to an extender, whatever the profile."""
        managed = [resource for extender in self.extenders for resource in extender.managed_resources]
        return frozenset(resource.name for resource in managed if resource.ignored_by_scheduler)

    def percentage_for(self, profile: Profile) -> int:
        """The profile's percentage of nodes to score, else the global one; 0 means that the scheduler chooses."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own


def load(path: Path) -> Configuration:
    """Read the configuration at ``path``. Raises ConfigurationError, which names the file."""
    try:
        return parse(path.read_text())
    except (ConfigurationError, OSError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def parse(text: str) -> Configuration:
    """The configuration that a YAML text holds, checked. Raises ConfigurationError with the field and the rule."""
    try:
        document = yaml.safe_load(text)
        configuration = msgspec.convert(without_nulls(document), Configuration)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigurationError(str(error)) from error
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        raise ConfigurationError(
            f"{document.get('apiVersion')} {document.get('kind')} is not served: write {API_VERSION} {KIND} "
            "(Kubernetes 1.29 and newer know no other version)"
        )
    validate(configuration)
    return configuration


def validate(configuration: Configuration) -> None:
    """Raise ConfigurationError for the first rule of kube-scheduler's validation that is broken."""
    if configuration.initial_backoff_seconds <= 0:
        raise ConfigurationError("podInitialBackoffSeconds: must be greater than 0")
    if configuration.max_backoff_seconds < configuration.initial_backoff_seconds:
        raise ConfigurationError("podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds")
    names = [profile.scheduler_name for profile in configuration.profiles]
    if not names or "" in names:
        raise ConfigurationError("profiles: at least one is needed, each with a schedulerName")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"profiles: a schedulerName is used twice ({', '.join(names)})")
    for profile in configuration.profiles:
        if len(profile.plugin_config) > 1:
            raise ConfigurationError(f"profiles: {profile.scheduler_name} configures NodeResourcesFit twice")
    validate_extenders(configuration.extenders)


def validate_extenders(extenders: tuple[ExtenderConfiguration, ...]) -> None:
    """Weights, the one binder, and the names of managed resources."""
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        where = f"extenders[{index}]"
        if not extender.url_prefix.startswith(("http://", "https://")):
            raise ConfigurationError(f"{where}.urlPrefix: {extender.url_prefix!r} is no http:// or https:// address")
        if extender.prioritize_verb and extender.weight <= 0:
            raise ConfigurationError(f"{where}.weight: an extender with a prioritizeVerb needs a positive weight")
        for resource in extender.managed_resources:
            if not is_extended_resource(resource.name):
                raise ConfigurationError(f"{where}.managedResources: {resource.name!r} is no extended resource name")
            if resource.name in seen:
                raise ConfigurationError(f"{where}.managedResources: {resource.name!r} is managed twice")
            seen.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        raise ConfigurationError(f"extenders: only one may have a bindVerb, {binders} have one")


def named_resources(container: Object) -> set[str]:
    """Every resource that a container names in requests or limits."""
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or {}), *(resources.get("limits") or {})}


def seconds_of(duration: str) -> float:
    """Seconds of a duration as Go writes it: ``30s``, ``1m30s``, ``250ms``. Raises ValueError for others, negative ones too."""
    parts = list(_DURATION_PART.finditer(duration))
    if duration != "0" and (not parts or "".join(part.group() for part in parts) != duration):
        raise ValueError(f"{duration!r} is no duration (examples: 30s, 1m30s, 250ms; a number needs its unit)")
    return sum(float(part[1]) * _UNIT_SECONDS[part[2]] for part in parts)


# Below this number of nodes all are looked at; above it at least this many that fit.
SMALLEST_WINDOW = 100
# The percentage that the scheduler computes never falls below this.
SMALLEST_PERCENTAGE = 5


def feasible_nodes_to_find(node_count: int, percentage: int) -> int:
    """The number of fitting nodes after which the search ends; ``percentage`` 0 lets the cluster's size decide.

    So an extender sees at most 500 nodes of 5,000 (kube-scheduler, numFeasibleNodesToFind).
    """
    if node_count < SMALLEST_WINDOW:
        return node_count
    if percentage == 0:
        percentage = max(SMALLEST_PERCENTAGE, 50 - node_count // 125)
    return max(SMALLEST_WINDOW, node_count * percentage // 100)
