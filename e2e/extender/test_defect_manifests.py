"""D28: the shipped configuration and manifests are of present releases, and place the extender on each kind of control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from clusters.controlplane.binaries import locate, minors
from clusters.deploy.render import BASE
from clusters.provider import ClusterError
from clusters.providers import Choices
from clusters.targets import Target
from e2e import commands
from e2e.builders import plain_container
from e2e.extender import schedulers
from e2e.extender.extender_under_test import ExtenderUnderTest

# The labels of a control plane's node: of kubeadm, of k3s and RKE2, of RKE, and of Kubernetes before 1.20.
_CONTROL_PLANES: Final = {
    "kubeadm": {"node-role.kubernetes.io/control-plane": ""},
    "k3s": {"node-role.kubernetes.io/control-plane": "true"},
    "rke": {"node-role.kubernetes.io/controlplane": "true"},
    "before-1.20": {"node-role.kubernetes.io/master": ""},
}


# A scheduler connects to nothing before it has taken its configuration.
_KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}


@pytest.mark.promise("D28", "EXT-038")
@pytest.mark.needs("manifests")
@pytest.mark.parametrize("minor", minors())
async def test_d28_each_real_scheduler_takes_the_configuration(
    target: Target, choices: Choices, tmp_path: Path, minor: str
) -> None:
    """kube-scheduler reads it, fills in its defaults and ends; the version that the original ships is refused by all of these."""
    try:
        scheduler = locate(minor, choices.environment, choices.assets)["kube-scheduler"]
    except ClusterError as error:
        pytest.skip(str(error))
    shipped = schedulers.configuration(target, "http://127.0.0.1:12345/gpushare-scheduler")

    taken = await _read(scheduler, shipped, tmp_path)
    assert taken.code == 0, taken.said
    (extender,) = yaml.safe_load((tmp_path / "filled.yaml").read_text())["extenders"]
    assert extender.items() >= {"filterVerb": "filter", "bindVerb": "bind"}.items()
    refused = await _read(scheduler, shipped | {"apiVersion": "kubescheduler.config.k8s.io/v1beta2"}, tmp_path)
    assert refused.code != 0
    assert "v1beta2" in refused.said


async def _read(scheduler: Path, configuration: dict[str, Any], folder: Path) -> commands.Ended:
    """Have a scheduler read the configuration and write it with its defaults."""
    (folder / "kubeconfig").write_text(yaml.safe_dump(_KUBECONFIG))
    configuration = configuration | {"clientConnection": {"kubeconfig": str(folder / "kubeconfig")}}
    (folder / "asked.yaml").write_text(yaml.safe_dump(configuration))
    return await commands.run(
        str(scheduler), f"--config={folder / 'asked.yaml'}", f"--write-config-to={folder / 'filled.yaml'}"
    )


@pytest.mark.promise("D28")
@pytest.mark.needs("manifests")
@pytest.mark.stand_in_only("its nodes have no kubelet")
@pytest.mark.parametrize("kind", _CONTROL_PLANES)
async def test_d28_the_extender_goes_to_each_control_plane(stage: ExtenderUnderTest, name: str, kind: str) -> None:
    """By the existence of the label: its value is empty or true, and its name was another. A worker is not taken."""
    own = {"case": stage.namespace}
    await stage.node(f"{name}-worker", 10, labels=own)
    await stage.node(name, 10, labels=own | _CONTROL_PLANES[kind])
    template = _template(BASE / "extender.yaml")
    place: dict[str, Any] = {key: value for key, value in template.items() if key in ("affinity", "tolerations")}
    selector: dict[str, str] = {**template.get("nodeSelector", {}), **own}
    # The nodes of this case have no operating system.
    selector.pop("kubernetes.io/os", None)
    body: dict[str, Any] = {"nodeSelector": selector, "containers": [plain_container("c0")], **place}
    await stage.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "extender"}, "spec": body})

    assert await stage.bound_to("extender") == name


def _template(path: Path) -> dict[str, Any]:
    """The spec of the pods of the Deployment in a file."""
    (found,) = (item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == "Deployment")
    return dict(found["spec"]["template"]["spec"])
