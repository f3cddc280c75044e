"""Promises of clusters.controlplane.binaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.controlplane.binaries import cache_folder, known, locate, minors, modules
from clusters.provider import ClusterError


def put(folder: Path, version: str, *programs: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        path = folder / program
        path.write_text(f"#!/bin/sh\necho 'Kubernetes {version}'\n")
        path.chmod(0o755)
    return folder


def cached(root: Path, minor: str) -> dict[str, str]:
    """A cache that holds all programs of a minor; the environment that names it."""
    environment = {"GPUSHARE_CACHE": str(root)}
    for module in modules(minor):
        put(module.cache(cache_folder(environment)), module.version, *module.packages)
    return environment


@pytest.mark.parametrize("minor", minors())
def test_each_module_pins_a_release_of_its_minor(minor: str) -> None:
    """Each module pins a Kubernetes release of its minor, staging modules of the same release, and an etcd of version 3."""
    kubernetes, etcd = modules(minor)
    text = (kubernetes.folder / "go.mod").read_text()

    assert kubernetes.version.startswith(f"v{minor}.")
    assert f"k8s.io/client-go => k8s.io/client-go v0{kubernetes.version[2:]}\n" in text
    assert etcd.version.startswith("v3.")


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    """One missing program is enough."""
    environment = cached(tmp_path, minors()[0])
    kubernetes = modules(minors()[0])[0]
    (kubernetes.cache(cache_folder(environment)) / "kube-scheduler").unlink()
    with pytest.raises(ClusterError, match=r"no kube-scheduler .*make control-plane"):
        locate(minors()[0], environment)


def test_assets_win_over_the_cache_which_fills_the_rest(tmp_path: Path) -> None:
    """The folder of envtest has no scheduler, so the cache supplies it."""
    minor = minors()[0]
    environment = cached(tmp_path / "cache", minor)
    assets = put(tmp_path / "assets", f"v{minor}.0", "kube-apiserver", "kubectl", "etcd")
    found = locate(minor, {**environment, "KUBEBUILDER_ASSETS": str(assets)})

    assert found["kube-apiserver"].parent == found["etcd"].parent == assets
    assert found["kube-scheduler"].parent != assets
    assert found.kubernetes == f"v{minor}.0"


def test_assets_of_another_minor_are_passed_over(tmp_path: Path) -> None:
    """The assets of another minor are passed over with their etcd, which may be too old for this minor."""
    assets = put(tmp_path / "assets", "v1.2.3", "kube-apiserver", "kubectl", "etcd")

    assert known(minors()[0], {"GPUSHARE_CACHE": str(tmp_path / "none")}, assets) == {}
