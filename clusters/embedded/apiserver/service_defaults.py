"""The defaults of Services and Secrets. Changes its argument.

There is no proxy behind a Service: nothing answers at its address, as in a cluster without kube-proxy.
"""

from __future__ import annotations

import base64
import hashlib

from clusters.embedded.apiserver.api_objects import Object


def set_defaults(item: Object) -> None:
    """Fill in the defaults of a Service and of its ports."""
    spec = item.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", []):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))
    item.setdefault("status", {}).setdefault("loadBalancer", {})
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("clusterIP", _address(item))
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")


def set_secret_defaults(item: Object) -> None:
    """Fill in the type, and what was written as plain text."""
    item.setdefault("type", "Opaque")
    for key, text in item.pop("stringData", {}).items():
        item.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _address(item: Object) -> str:
    """An address of the range of services that goes with the object."""
    digest = hashlib.sha256(str(item["metadata"].get("uid")).encode()).digest()
    return f"10.96.{digest[0]}.{1 + digest[1] % 254}"
