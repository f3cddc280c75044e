"""Reads a KubeSchedulerConfiguration as strictly as kube-scheduler: no unknown field, no field twice, no other case."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from clusters.embedded.scheduling.configuration import (
    DEFAULT_SCHEDULER_NAME,
    DEFAULT_TIMEOUT_SECONDS,
    Configuration,
    ConfigurationError,
    ExtenderConfiguration,
    ManagedResource,
    Profile,
    TLSConfiguration,
    validate,
)
from clusters.embedded.scheduling.go_durations import seconds_of

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

Fields = Mapping[str, type]

TOP_FIELDS: Fields = {
    "apiVersion": str,
    "kind": str,
    "parallelism": int,
    "leaderElection": dict,
    "clientConnection": dict,
    "enableProfiling": bool,
    "enableContentionProfiling": bool,
    "percentageOfNodesToScore": int,
    "podInitialBackoffSeconds": int,
    "podMaxBackoffSeconds": int,
    "profiles": list,
    "extenders": list,
    "delayCacheUntilActive": bool,
}
# Fields that the embedded scheduler ignores without changing a decision: not worth a warning.
WITHOUT_EFFECT = ("plugins", "pluginConfig")
PROFILE_FIELDS: Fields = {
    "schedulerName": str,
    "percentageOfNodesToScore": int,
    "plugins": dict,
    "pluginConfig": list,
}
EXTENDER_FIELDS: Fields = {
    "urlPrefix": str,
    "filterVerb": str,
    "preemptVerb": str,
    "prioritizeVerb": str,
    "weight": int,
    "bindVerb": str,
    "enableHTTPS": bool,
    "tlsConfig": dict,
    "httpTimeout": str,
    "nodeCacheCapable": bool,
    "managedResources": list,
    "ignorable": bool,
}
RESOURCE_FIELDS: Fields = {"name": str, "ignoredByScheduler": bool}
TLS_FIELDS: Fields = {
    "insecure": bool,
    "serverName": str,
    "certFile": str,
    "keyFile": str,
    "caFile": str,
    "certData": str,
    "keyData": str,
    "caData": str,
}


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice; PyYAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build one mapping."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for position, key in enumerate(keys):
            if key in keys[:position]:
                raise ConfigurationError(f"line {node.value[position][0].start_mark.line + 1}: {key!r} is set twice")
        return super().construct_mapping(node, deep)


def load(path: Path) -> Configuration:
    """Read the configuration at ``path``. Raises ConfigurationError, which names the file."""
    try:
        return parse(path.read_text())
    except (ConfigurationError, OSError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def parse(text: str) -> Configuration:
    """The configuration that a YAML text holds, checked. Raises ConfigurationError with the field and the rule."""
    try:
        document = yaml.load(text, Loader=UniqueKeyLoader)  # noqa: S506 - a SafeLoader, only stricter
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}") from error
    top = fields("", document, TOP_FIELDS)
    if (top.get("apiVersion"), top.get("kind")) != (API_VERSION, KIND):
        raise ConfigurationError(
            f"{top.get('apiVersion')} {top.get('kind')} is not served: write {API_VERSION} {KIND} "
            "(Kubernetes 1.29 and newer know no other version)"
        )
    profiles = items("profiles", top, PROFILE_FIELDS)
    extenders = items("extenders", top, EXTENDER_FIELDS)
    configuration = Configuration(
        extenders=tuple(extender_of(f"extenders[{index}]", each) for index, each in enumerate(extenders)),
        profiles=tuple(profile_of(each) for each in profiles) or (Profile(),),
        percentage_of_nodes_to_score=top.get("percentageOfNodesToScore", 0),
        initial_backoff_seconds=top.get("podInitialBackoffSeconds", 1),
        max_backoff_seconds=top.get("podMaxBackoffSeconds", 10),
        not_imitated=tuple(
            f"profiles[{index}].{name}"
            for index, each in enumerate(profiles)
            for name in WITHOUT_EFFECT
            if each.get(name)
        ),
    )
    validate(configuration)
    return configuration


def profile_of(profile: dict[str, Any]) -> Profile:
    """One entry of ``profiles``."""
    return Profile(profile.get("schedulerName", DEFAULT_SCHEDULER_NAME), profile.get("percentageOfNodesToScore"))


def extender_of(where: str, extender: dict[str, Any]) -> ExtenderConfiguration:
    """One entry of ``extenders``."""
    tls = extender.get("tlsConfig")
    return ExtenderConfiguration(
        url_prefix=extender.get("urlPrefix", ""),
        filter_verb=extender.get("filterVerb", ""),
        preempt_verb=extender.get("preemptVerb", ""),
        prioritize_verb=extender.get("prioritizeVerb", ""),
        weight=extender.get("weight", 0),
        bind_verb=extender.get("bindVerb", ""),
        enable_https=extender.get("enableHTTPS", False),
        tls=None if tls is None else tls_of(f"{where}.tlsConfig", fields(f"{where}.tlsConfig", tls, TLS_FIELDS)),
        timeout_seconds=timeout_of(f"{where}.httpTimeout", extender.get("httpTimeout", "0s")),
        node_cache_capable=extender.get("nodeCacheCapable", False),
        managed_resources=tuple(
            ManagedResource(each.get("name", ""), each.get("ignoredByScheduler", False))
            for each in items("managedResources", extender, RESOURCE_FIELDS, where + ".")
        ),
        ignorable=extender.get("ignorable", False),
    )


def timeout_of(where: str, text: str) -> float:
    """Seconds of ``httpTimeout``; 0 stands for the default."""
    try:
        seconds = seconds_of(text)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if seconds < 0:
        raise ConfigurationError(f"{where}: {text} is negative")
    return seconds or DEFAULT_TIMEOUT_SECONDS


def tls_of(where: str, tls: dict[str, Any]) -> TLSConfiguration:
    """``tlsConfig``; the data fields are base64 of PEM."""

    def decoded(field: str) -> bytes:
        try:
            return base64.b64decode(tls.get(field, ""), validate=True)
        except (binascii.Error, ValueError) as error:
            raise ConfigurationError(f"{where}.{field}: not base64 ({error})") from error

    return TLSConfiguration(
        insecure=tls.get("insecure", False),
        server_name=tls.get("serverName", ""),
        cert_file=tls.get("certFile", ""),
        key_file=tls.get("keyFile", ""),
        ca_file=tls.get("caFile", ""),
        cert_data=decoded("certData"),
        key_data=decoded("keyData"),
        ca_data=decoded("caData"),
    )


def items(name: str, parent: Mapping[str, Any], known: Fields, prefix: str = "") -> list[dict[str, Any]]:
    """The entries of a list of mappings, each checked like ``fields``."""
    return [fields(f"{prefix}{name}[{index}]", each, known) for index, each in enumerate(parent.get(name, []))]


def fields(where: str, value: object, known: Fields) -> dict[str, Any]:
    """The fields of a mapping that are set, checked against the names and types ``known``; null counts as not set."""
    label = where or "the document"
    if not isinstance(value, dict):
        raise ConfigurationError(f"{label}: a mapping is expected, not {value!r}")
    for name, content in value.items():
        if name not in known:
            raise ConfigurationError(f"{label}: unknown field {name!r} (known: {', '.join(known)})")
        # A YAML true is an int to Python, but a bool to the scheduler.
        if content is not None and type(content) is not known[name]:
            raise ConfigurationError(f"{label}.{name}: {content!r} is no {known[name].__name__}".lstrip("."))
    return {name: content for name, content in value.items() if content is not None}
