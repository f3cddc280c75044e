"""Promises of clusters.embedded.apiserver.pod_part_defaults: the values of parts of a pod that a manifest leaves out."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.pod_part_defaults import (
    default_container,
    default_status,
    default_volumes,
    without_zeros,
)


def test_volumes_have_a_source_and_a_mode() -> None:
    """One without a source is an empty folder."""
    volumes: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b", "hostPath": {"path": "/x"}},
        {"name": "c", "configMap": {}},
    ]
    default_volumes(volumes)
    assert volumes == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "hostPath": {"path": "/x", "type": ""}},
        {"name": "c", "configMap": {"defaultMode": 420}},
    ]


def test_probes_have_a_rhythm() -> None:
    """And speak HTTP to the root."""
    container: dict[str, Any] = {"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}}
    default_container(container)
    assert container["livenessProbe"]["periodSeconds"] == 5
    assert container["livenessProbe"]["failureThreshold"] == 3
    assert container["livenessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}


def test_one_address_and_the_list_agree() -> None:
    """Whichever a kubelet writes."""
    for status in ({"podIP": "10.0.0.1"}, {"podIPs": [{"ip": "10.0.0.1"}]}):
        default_status(status)
        assert status == {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}


def test_empty_texts_are_no_fields() -> None:
    """But in maps of the user's they are values."""
    spec = {
        "nodeName": "",
        "nodeSelector": {"a": ""},
        "hostNetwork": False,
        "containers": [{"tty": False, "name": "c"}],
    }
    assert without_zeros(spec) == {"nodeSelector": {"a": ""}, "containers": [{"name": "c"}]}
