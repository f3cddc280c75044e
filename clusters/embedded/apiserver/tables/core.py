"""The columns of the small kinds of the core group, and of leases and endpoint slices. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    WIDE,
    at,
    label_texts,
    list_at,
    number,
    text,
    text_at,
)

# Addresses that are shown before the rest is only counted.
_SHOWN: Final = 3

NAMESPACES: Final = (NAME, text("Status", "whether it stays", lambda item: text_at(item, "status", "phase")), AGE)
CONFIG_MAPS: Final = (
    NAME,
    number("Data", "entries", lambda item: _size(item, "data") + _size(item, "binaryData"), "string"),
    AGE,
)
SECRETS: Final = (
    NAME,
    text("Type", "what it is for", lambda item: text_at(item, "type")),
    number("Data", "entries", lambda item: _size(item, "data"), "string"),
    AGE,
)
SERVICE_ACCOUNTS: Final = (NAME, AGE)
LEASES: Final = (NAME, text("Holder", "who has it", lambda item: text_at(item, "spec", "holderIdentity")), AGE)


def _size(item: Object, key: str) -> int:
    return len(at(item, key) or {})


def _cluster_ip(item: Object) -> str:
    addresses = list_at(item, "spec", "clusterIPs")
    return str(addresses[0]) if addresses else NONE


def _external_ip(item: Object) -> str:
    kind, external = text_at(item, "spec", "type"), list_at(item, "spec", "externalIPs")
    if kind == "ExternalName":
        return text_at(item, "spec", "externalName")
    if kind == "LoadBalancer":
        balancers = {
            one.get("ip") or one.get("hostname") or "" for one in list_at(item, "status", "loadBalancer", "ingress")
        }
        return ",".join([*sorted(balancers - {""}), *external]) or "<pending>"
    return ",".join(external) or (NONE if kind in ("ClusterIP", "NodePort") else UNKNOWN)


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


SERVICES: Final = (
    NAME,
    text("Type", "how it can be reached", lambda item: text_at(item, "spec", "type")),
    text("Cluster-IP", "its address inside the cluster", _cluster_ip),
    text("External-IP", "its addresses outside", _external_ip),
    text("Port(s)", "its ports", lambda item: ",".join(map(_port, list_at(item, "spec", "ports"))) or NONE),
    AGE,
    text("Selector", "which pods are behind it", lambda item: label_texts(at(item, "spec", "selector")), WIDE),
)


def _some(found: Iterable[str], empty: str) -> str:
    """The first few, and how many more there are."""
    texts = list(found)
    if len(texts) > _SHOWN:
        return f"{','.join(texts[:_SHOWN])} + {len(texts) - _SHOWN} more..."
    return ",".join(texts) or empty


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints(item: Object) -> str:
    if not list_at(item, "subsets"):
        return NONE
    found: list[str] = []
    for subset in list_at(item, "subsets"):
        addresses = [str(one.get("ip", "")) for one in list_at(subset, "addresses")]
        ports = list_at(subset, "ports")
        found += addresses if not ports else []
        found += [_host_port(address, port.get("port", 0)) for port in ports for address in addresses]
    return _some(found, "")


def _slice_ports(item: Object) -> str:
    return _some((str(one.get("port") or one.get("name") or "*") for one in list_at(item, "ports")), "<unset>")


def _slice_addresses(item: Object) -> str:
    found = (str(address) for one in list_at(item, "endpoints") for address in list_at(one, "addresses"))
    return _some(found, "<unset>")


ENDPOINTS: Final = (NAME, text("Endpoints", "addresses behind the service", _endpoints), AGE)
ENDPOINT_SLICES: Final = (
    NAME,
    text("AddressType", "of its addresses", lambda item: text_at(item, "addressType")),
    text("Ports", "ports behind the service", _slice_ports),
    text("Endpoints", "addresses behind the service", _slice_addresses),
    AGE,
)
