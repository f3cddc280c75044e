"""Defaults of Services and Secrets."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.service_defaults import set_defaults, set_secret_defaults


def test_a_service_has_an_address_and_whole_ports() -> None:
    """An address in the range of services, the same at every read."""
    item: dict[str, Any] = {"metadata": {"uid": "u"}, "spec": {"ports": [{"port": 80}]}}
    set_defaults(item)
    assert item["spec"]["type"] == "ClusterIP"
    assert item["spec"]["clusterIP"].startswith("10.96.")
    assert item["spec"]["clusterIPs"] == [item["spec"]["clusterIP"]]
    assert item["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def test_a_service_that_is_only_a_name_has_no_address() -> None:
    """Nor one with clusterIP None."""
    item: dict[str, Any] = {"metadata": {}, "spec": {"type": "ExternalName", "externalName": "e.example"}}
    set_defaults(item)
    assert "clusterIP" not in item["spec"]


def test_plain_text_of_a_secret_is_encoded() -> None:
    """It wins over what is there under its key."""
    item: dict[str, Any] = {"metadata": {}, "data": {"a": "AA=="}, "stringData": {"a": "b"}}
    set_secret_defaults(item)
    assert item == {"metadata": {}, "type": "Opaque", "data": {"a": "Yg=="}}
