"""Promises of e2e.onsite.site_facts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from clusters.deploy.render import OVERLAY_KIND
from e2e.onsite.site_facts import is_simulated


def node(runtime: str = "containerd://2.1", **labels: str) -> dict[str, Any]:
    """A node of this runtime."""
    return {"metadata": {"name": "n", "labels": labels}, "status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}


def plugin(where: str = "n", component: str = "gpushare-device-plugin", **changes: Any) -> dict[str, Any]:
    """A device plugin's pod, with these changes to its container."""
    container = {"name": "gpushare", "image": "gpushare/device-plugin:1.2", "command": ["gpushare-device-plugin"]}
    return {
        "metadata": {"name": "p", "labels": {"component": component}},
        "spec": {"nodeName": where, "containers": [{**container, **changes}]},
    }


@pytest.mark.parametrize(
    ("changed", "pod", "expected"),
    [
        (node(), plugin(), False),
        (node("simulated://1"), plugin(), True),
        (node(**{"clusters.gpushare/device-plugin": "x"}), plugin(), True),
        (node(), plugin(env=[{"name": "FAKENVML_STATE", "value": "/state"}]), True),
        (node(), plugin(command=["gpushare-device-plugin-simulated"]), True),
        (node(), plugin(image="registry.site/gpushare/device-plugin-simulated:1.2"), True),
        (node(), plugin(volumeMounts=[{"name": "cards", "mountPath": "/var/lib/gpushare-simulated"}]), True),
        (node(), plugin("other", command=["gpushare-device-plugin-simulated"]), False),
        (node(), plugin(component="theirs", command=["card-simulated"]), False),
    ],
)
def test_simulated_cards_are_recognised(changed: dict[str, Any], pod: dict[str, Any], expected: bool) -> None:
    """A node's runtime, its labels, or the device plugin on it show that its cards are simulated; other nodes do not count."""
    assert is_simulated(changed, [pod]) is expected


def test_the_overlay_with_simulated_cards_is_recognised() -> None:
    """A device plugin as our manifests for simulated cards have it marks its node, whatever its image is called."""
    manifest = yaml.safe_load((OVERLAY_KIND / "simulated-cards.yaml").read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]

    assert is_simulated(node(), [plugin(**container)])
    for part in ("command", "volumeMounts"):
        del container[part]
        assert is_simulated(node(), [plugin(**container)])
