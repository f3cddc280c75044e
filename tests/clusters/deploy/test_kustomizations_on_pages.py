"""The kustomizations of docs/install/from-the-original.md, as a reader copies them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

from clusters.deploy.render import render
from tests.clusters.deploy.reading import only
from tests.tracked_files import ROOT

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
