"""Promises of the files beside the manifests, and of the kustomizations on pages: they agree with what is installed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.demo import SAMPLES
from clusters.deploy.render import BASE, FOLDER, OVERLAY_NODEPORT, render
from gpushare import wire
from tests.clusters.deploy.reading import Object, extender_of, only
from tests.tracked_files import ROOT


def scheduler_extender(path: Path) -> Object:
    """The extender that a scheduler's configuration names."""
    (extender,) = yaml.safe_load(path.read_text())["extenders"]
    return dict(extender)


@pytest.mark.parametrize("folder", [BASE, OVERLAY_NODEPORT], ids=["base", "nodeport"])
async def test_scheduler_calls_the_extender_installed_with_it(kubectl: Path, folder: Path) -> None:
    """The scheduler configuration beside a kustomization names the port of that kustomization and the program's path."""
    objects = await render(kubectl, folder)
    _, says = extender_of(objects)
    services = [item["spec"] for item in objects if item["kind"] == "Service"]
    ports = [port["nodePort"] for spec in services if spec.get("type") == "NodePort" for port in spec["ports"]]
    port = ports[0] if ports else says.port

    path = wire.PATH_FILTER.rpartition("/")[0]
    assert scheduler_extender(folder / "scheduler-config.yaml")["urlPrefix"] == f"http://127.0.0.1:{port}{path}"


def test_samples_name_no_node() -> None:
    """The samples run on any cluster that has cards of their size."""
    samples = [item for path in sorted(SAMPLES.glob("*.yaml")) for item in yaml.safe_load_all(path.read_text())]
    specs = [item["spec"].get("template", item)["spec"] for item in samples]

    assert len(specs) == 6
    assert all(not spec.keys() & {"nodeName", "nodeSelector", "affinity"} for spec in specs)


def test_setup_as_a_pod_has_the_image_of_the_extender() -> None:
    """A release that names another image names it in both."""
    paths = BASE / "extender.yaml", SAMPLES / "setup" / "job.yaml"
    extender, job = (yaml.safe_load(path.read_text()) for path in paths)

    assert images_of(job) == images_of(extender)
    assert job["metadata"]["labels"]["app.kubernetes.io/version"] == images_of(job)[0].rpartition(":")[2]


def images_of(item: Object) -> list[str]:
    """The images of a workload's containers."""
    return [container["image"] for container in item["spec"]["template"]["spec"]["containers"]]


def test_the_page_names_what_there_is() -> None:
    """Every overlay and component, and no other."""
    page = (FOLDER / "README.md").read_text()
    there = {f"{kind}/{path.name}" for kind in ("components", "overlays") for path in (FOLDER / kind).iterdir()}
    words = {word.strip("`,.;:()") for word in page.split()}

    assert there == {
        word.rstrip("/") for word in words if word.startswith(("components/", "overlays/")) and "." not in word
    }


THERE, BACK = (
    textwrap.dedent(text)
    for text in re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "install" / "from-the-original.md").read_text(), re.DOTALL
    )
)
# The original's, as far as it matters here.
ORIGINAL: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "gpushare-device-plugin-ds", "namespace": "kube-system"},
    "spec": {"template": {"spec": {"containers": [{"name": "gpushare", "image": "original"}]}}},
}


async def test_the_way_there_waits_for_each_pod(tmp_path: Path, kubectl: Path) -> None:
    """The site's folder beside the checkout: the original's form, its images, and a DaemonSet that replaces no pod by itself."""
    (tmp_path / "gpushare").symlink_to(ROOT)
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(THERE)

    objects = await render(kubectl, folder)
    plugin, extender = only(objects, "DaemonSet"), only(objects, "Deployment")
    assert plugin["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert extender["spec"]["strategy"] == {"type": "Recreate"}
    images = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in (plugin, extender)]
    assert all(image.startswith("registry.example/gpushare/") for image in images)
    assert only(objects, "Service")["spec"]["ports"][0]["nodePort"] == 32766


async def test_the_way_back_waits_for_each_pod(tmp_path: Path, kubectl: Path) -> None:
    """The original's file has no strategy, and would be rolled out to all nodes."""
    (tmp_path / "device-plugin-ds.yaml").write_text(yaml.safe_dump(ORIGINAL))
    (tmp_path / "kustomization.yaml").write_text(BACK)

    (plugin,) = await render(kubectl, tmp_path)
    assert plugin["spec"] == ORIGINAL["spec"] | {"updateStrategy": {"type": "OnDelete"}}
