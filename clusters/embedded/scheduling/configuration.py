"""A KubeSchedulerConfiguration, as far as a scheduler extender can notice it, and the rules that it must obey."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from clusters.api_client import Object

DEFAULT_SCHEDULER_NAME = "default-scheduler"
# Seconds that one call may take when httpTimeout is 0 or absent; from connecting to the last byte of the answer.
DEFAULT_TIMEOUT_SECONDS = 5.0
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class ConfigurationError(ValueError):
    """A configuration that kube-scheduler would refuse; the text names the field and the rule."""


@dataclass(frozen=True, slots=True)
class TLSConfiguration:
    """How to speak TLS to an extender; ``*_data`` is PEM and wins over the file of the same name."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class ManagedResource:
    """An extended resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class ExtenderConfiguration:
    """One extender. An empty verb means that the extender does not take part in that step."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls: TLSConfiguration | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    def is_interested(self, pod: Object) -> bool:
        """Whether any container or init container names a managed resource, in requests or limits, even with 0.

        An extender that manages nothing is interested in every pod.
        """
        if not self.managed_resources:
            return True
        managed = {resource.name for resource in self.managed_resources}
        containers = [*(pod["spec"].get("containers") or []), *(pod["spec"].get("initContainers") or [])]
        return any(not managed.isdisjoint(named_resources(container)) for container in containers)


@dataclass(frozen=True, slots=True)
class Profile:
    """One scheduler name that pods may ask for; a percentage of None means the global one."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """A whole configuration. ``not_imitated`` names valid fields that this scheduler reads past."""

    extenders: tuple[ExtenderConfiguration, ...] = ()
    profiles: tuple[Profile, ...] = (Profile(),)
    percentage_of_nodes_to_score: int = 0
    initial_backoff_seconds: float = 1
    max_backoff_seconds: float = 10
    not_imitated: tuple[str, ...] = ()

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

    def with_url_prefix(self, url_prefix: str, index: int = 0) -> Configuration:
        """The same configuration with the extender number ``index`` elsewhere (a free port, say)."""
        if index >= len(self.extenders):
            raise ConfigurationError(f"there is no extender {index}: the configuration has {len(self.extenders)}")
        moved = list(self.extenders)
        moved[index] = replace(moved[index], url_prefix=url_prefix)
        return replace(self, extenders=tuple(moved))


def named_resources(container: Object) -> set[str]:
    """Every resource that a container names in requests or limits."""
    resources = container.get("resources") or {}
    return {*(resources.get("requests") or {}), *(resources.get("limits") or {})}


def validate(configuration: Configuration) -> None:
    """Raise ConfigurationError for the first rule of kube-scheduler's validation that is broken."""
    if configuration.initial_backoff_seconds <= 0:
        raise ConfigurationError("podInitialBackoffSeconds: must be greater than 0")
    if configuration.max_backoff_seconds < configuration.initial_backoff_seconds:
        raise ConfigurationError("podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds")
    validate_percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score)
    validate_profiles(configuration.profiles)
    validate_extenders(configuration.extenders)


def validate_percentage(field: str, percentage: int | None) -> None:
    """A percentage lies in 0..100."""
    if percentage is not None and not 0 <= percentage <= 100:
        raise ConfigurationError(f"{field}: {percentage} is not in the range 0-100")


def validate_profiles(profiles: tuple[Profile, ...]) -> None:
    """Profiles exist, and each has a name of its own."""
    names = [profile.scheduler_name for profile in profiles]
    if not names or "" in names:
        raise ConfigurationError("profiles: at least one is needed, each with a schedulerName")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"profiles: a schedulerName is used twice ({', '.join(names)})")
    for index, profile in enumerate(profiles):
        validate_percentage(f"profiles[{index}].percentageOfNodesToScore", profile.percentage_of_nodes_to_score)


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


def is_extended_resource(name: str) -> bool:
    """Whether ``name`` is ``domain/name`` outside Kubernetes' own domain and not a quota's ``requests.`` name."""
    domain, slash, rest = name.partition("/")
    if not slash or domain.startswith("requests.") or domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return False
    return bool(DOMAIN.fullmatch(domain)) and bool(NAME.fullmatch(rest))
