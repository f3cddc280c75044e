"""Promises of build, and of the files that it puts into a node.

The image itself is built by `make kind-image` and used by the cases on kind.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from clusters.kind.offline.node_image import build
from clusters.kind.offline.node_image.build import UNITS, write_programs, write_settings
from clusters.kind.offline.node_image.node_programs import NETWORK_PLUGINS, NODE_PROGRAMS, minors, modules

ROOT = Path(__file__).parents[5]
UNIT_FOLDER = "etc/systemd/system"


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, as a user calls it."""
    argv = [sys.executable, "-m", "clusters.kind.offline.node_image.build", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_name_says_version_and_content() -> None:
    """The image's name holds the version and a digest, and the same content has the same name."""
    built = modules(minors()[0])

    assert re.fullmatch(rf"gpushare/kind-node:{re.escape(built[0].version)}-[0-9a-f]{{12}}", build.name_of(built))
    assert build.name_of(built) == build.name_of(built)


def test_another_pin_is_another_name() -> None:
    """Whichever program it is of."""
    built = modules(minors()[0])

    assert len({build.name_of(built), build.name_of(built[:-1]), build.name_of((built[0], *built[2:]))}) == 3


def test_changed_file_is_another_name(tmp_path: Path) -> None:
    """A unit that was corrected must not be hidden by an image that is there."""
    (tmp_path / "files").mkdir()
    unit = tmp_path / "files/a.service"
    built = modules(minors()[0])
    unit.write_text("[Unit]\n")
    before = build.name_of(built, tmp_path)
    unit.write_text("[Service]\n")

    assert build.name_of(built, tmp_path) != before
    assert build.FILES.is_dir()


def test_unknown_release_is_a_usage_error() -> None:
    """An unknown release is a usage error that names the known releases."""
    done = call("--kubernetes", "1.2")

    assert done.returncode == 2
    assert minors()[0] in done.stderr


def test_no_docker_is_one_clear_line(tmp_path: Path) -> None:
    """If no engine answers, the build fails with one clear line and builds nothing."""
    done = call(DOCKER_HOST=f"unix://{tmp_path}/none.sock", GPUSHARE_CACHE=str(tmp_path))

    assert done.returncode == 1
    assert done.stderr.startswith("kind-image: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "node-image").exists()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that are written for a release."""
    (tmp_path / "tree").mkdir()
    write_settings(tmp_path / "tree", "v1.36.3", "registry.test/pause:9")
    return tmp_path / "tree"


def test_programs_are_where_they_are_looked_for(tmp_path: Path) -> None:
    """Executable for all, whatever the cache's modes are."""
    program = tmp_path / "program"
    program.write_text("")
    program.chmod(0o600)
    write_programs(tmp_path / "tree", dict.fromkeys([*NODE_PROGRAMS, *NETWORK_PLUGINS], program))
    found = {path.relative_to(tmp_path / "tree") for path in (tmp_path / "tree").rglob("*") if path.is_file()}

    assert {Path("usr/local/bin") / name for name in NODE_PROGRAMS} | {
        Path("opt/cni/bin") / name for name in NETWORK_PLUGINS
    } == found
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "tree").rglob("*") if path.is_file()} == {0o755}


def test_kind_reads_one_line_of_version(tree: Path) -> None:
    """More than one line is an error to kind."""
    assert (tree / "kind/version").read_text() == "v1.36.3\n"


def test_containerd_uses_the_pause_image_that_kubeadm_names(tree: Path) -> None:
    """The pinned sandbox image is the one that kubeadm names, because containerd would ask a registry for any other."""
    config = tomllib.loads((tree / "etc/containerd/config.toml").read_text())

    assert config["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "registry.test/pause:9"
    assert "@" not in (tree / "etc/containerd/config.toml").read_text()


def test_the_folder_of_static_pods_is_there_on_workers_too(tree: Path) -> None:
    """The folder of static pods exists, because a kubelet without it logs errors for ever."""
    assert list((tree / "etc/kubernetes/manifests").iterdir()) == []


def test_network_is_json_once_filled_in(tree: Path) -> None:
    """Every plugin of it is in the image."""
    text = (tree / "etc/containerd/network.template").read_text().replace("{{.PodCIDR}}", "10.0.0.0/24")
    plugins = json.loads(text)["plugins"]

    assert {plugin["type"] for plugin in plugins} <= {*NETWORK_PLUGINS}
    assert plugins[0]["ipam"]["type"] in NETWORK_PLUGINS


def test_enabled_units_are_there(tree: Path) -> None:
    """Each link leads to a unit of ours that wants to be installed."""
    links = sorted((tree / UNIT_FOLDER / "multi-user.target.wants").iterdir())

    assert [link.name for link in links] == sorted(yaml.safe_load(UNITS.read_text())["enabled"])
    for link in links:
        assert "WantedBy=multi-user.target" in (tree / str(link.readlink()).lstrip("/")).read_text()


def test_masked_units_lead_nowhere(tree: Path) -> None:
    """Masked units are links to /dev/null, and none of them is enabled."""
    units = yaml.safe_load(UNITS.read_text())

    assert not {*units["enabled"]} & {*units["masked"]}
    assert {str((tree / UNIT_FOLDER / unit).readlink()) for unit in units["masked"]} == {"/dev/null"}


def test_what_units_start_is_there(tree: Path) -> None:
    """Scripts of ours, executable; the rest is programs that Go builds."""
    started = [
        line.partition("=")[2].split()[0]
        for unit in (tree / UNIT_FOLDER).glob("*.service")
        if not unit.is_symlink()
        for line in unit.read_text().splitlines()
        if line.startswith(("ExecStart=", "ExecStartPre="))
    ]
    scripts = [path for path in started if path.startswith("/usr/local/libexec/")]

    assert all(os.access(tree / path.lstrip("/"), os.X_OK) for path in scripts)
    assert {Path(path).name for path in started if path not in scripts} <= {*NODE_PROGRAMS}


def test_scripts_are_well_formed(tree: Path) -> None:
    """Each by the shell that it names."""
    scripts = sorted((tree / "usr/local/libexec/node").iterdir())

    assert scripts
    for script in scripts:
        shell = script.read_text().splitlines()[0].removeprefix("#!")
        assert subprocess.run([shell, "-n", script], check=False).returncode == 0, script.name


def test_objects_and_settings_are_well_formed(tree: Path) -> None:
    """The manifests that kind applies, and the files that the kubelet reads beside kubeadm's."""
    cni = list(yaml.safe_load_all((tree / "kind/manifests/default-cni.yaml").read_text()))
    storage = yaml.safe_load((tree / "kind/manifests/default-storage.yaml").read_text())
    kubelet = yaml.safe_load((tree / "etc/kubelet.conf.d/10-cgroup-v1.conf").read_text())

    assert [one["kind"] for one in cni] == ["ClusterRole", "ClusterRoleBinding"]
    assert storage["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    assert (kubelet["kind"], kubelet["failCgroupV1"]) == ("KubeletConfiguration", False)


def test_each_node_makes_its_own_identity(tree: Path) -> None:
    """The image has none to share."""
    assert (tree / "etc/machine-id").read_text() == ""
