"""Promises of clusters.release.released_chart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from clusters.deploy.chart_templates import TEMPLATES
from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from clusters.release.released_chart import package, values_with
from gpushare import __version__

VALUES = (TEMPLATES.parent / "values.yaml").read_text()
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def test_the_values_name_the_images_of_the_registry() -> None:
    """With their digests, and nothing else changes."""
    got = yaml.safe_load(values_with(VALUES, "registry.example/a", {"extender": ONE, "device-plugin": TWO}))
    expected = yaml.safe_load(VALUES)
    expected["extender"]["image"] |= {"repository": "registry.example/a/extender", "digest": ONE}
    expected["devicePlugin"]["image"] |= {"repository": "registry.example/a/device-plugin", "digest": TWO}

    assert got == expected


def test_without_a_digest_the_tag_counts() -> None:
    """The value stays empty."""
    assert yaml.safe_load(values_with(VALUES, "r/a", {"extender": ONE}))["devicePlugin"]["image"]["digest"] == ""


def test_what_is_no_digest_is_refused() -> None:
    """An empty answer of a registry, or one with text around it, reaches no chart."""
    with pytest.raises(ClusterError, match="is no digest of extender"):
        values_with(VALUES, "r/a", {"extender": f"Digest: {ONE}"})


def test_values_without_an_image_are_refused() -> None:
    """Else a release would have a chart that pulls nothing."""
    with pytest.raises(ClusterError, match="0 times"):
        values_with("extender: {}\n", "r/a", {})


async def test_helm_renders_the_packed_chart(helm: Path, tmp_path: Path) -> None:
    """Its pods run the images of the registry by digest, and its version is that of the programs."""
    environment = dict(os.environ)
    packed = package("registry.example/a", {"extender": ONE, "device-plugin": TWO}, tmp_path, environment)
    assert packed.name == f"gpushare-{__version__}.tgz"
    options = ["--namespace", "kube-system", "--kube-version", "1.36.0"]
    text = await output_of([str(helm), "template", "gpushare", str(packed), *options], environment)
    workloads = [one for one in yaml.safe_load_all(text) if one and one["kind"] in ("Deployment", "DaemonSet")]

    assert {one["spec"]["template"]["spec"]["containers"][0]["image"] for one in workloads} == {
        f"registry.example/a/extender@{ONE}",
        f"registry.example/a/device-plugin@{TWO}",
    }
    assert {one["metadata"]["labels"]["app.kubernetes.io/version"] for one in workloads} == {__version__}
