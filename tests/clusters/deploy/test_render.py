"""Promises of clusters.deploy.render."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.deploy.render import (
    OVERLAY_KIND,
    containers_of,
    name_of_image,
    render,
    with_images,
)
from clusters.provider import ClusterError


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("gpushare/extender", "gpushare/extender"),
        ("gpushare/extender:1.0", "gpushare/extender"),
        ("gpushare/extender@sha256:0123", "gpushare/extender"),
        ("gpushare/extender:1.0@sha256:0123", "gpushare/extender"),
        ("registry.example:5000/gpushare/extender", "registry.example:5000/gpushare/extender"),
        ("registry.example:5000/gpushare/extender:1.0", "registry.example:5000/gpushare/extender"),
        ("pause:3.10", "pause"),
    ],
)
def test_the_name_of_an_image_is_what_is_left_of_its_tag(image: str, name: str) -> None:
    """A registry's port is no tag."""
    assert name_of_image(image) == name


def test_images_are_set_by_name_in_init_containers_too() -> None:
    """Others stay as they are."""
    spec = {"initContainers": [{"image": "a:1"}], "containers": [{"image": "b"}, {"image": "c"}]}
    objects = [
        {"kind": "Service", "spec": {"selector": {}}},
        {"kind": "Deployment", "spec": {"template": {"spec": spec}}},
    ]

    changed = with_images(objects, {"a": "x/a:2", "c": "x/c:2"})

    assert [container["image"] for container in containers_of(changed[1])] == ["x/a:2", "b", "x/c:2"]


def test_an_image_that_nothing_runs_is_an_error() -> None:
    """A typo would leave the manifests with an image that does not exist."""
    with pytest.raises(ClusterError, match="gpushare/extendre"):
        with_images(
            [{"spec": {"template": {"spec": {"containers": [{"image": "gpushare/extender"}]}}}}],
            {"gpushare/extendre": "x"},
        )


async def test_what_kubectl_says_is_the_error(kubectl: Path, tmp_path: Path) -> None:
    """The error holds kubectl's message and the folder that was asked for."""
    with pytest.raises(ClusterError, match=rf"{tmp_path}.*kustomization"):
        await render(kubectl, tmp_path)
    with pytest.raises(ClusterError, match="no-such-component"):
        await render(kubectl, OVERLAY_KIND, components=("no-such-component",))
