"""The images of this checkout, if Docker has them: they start, and report their program. And the inputs that decide their tag."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clusters.kind.engine.engine import engine_environment
from clusters.kind.program_images import build, build_context
from clusters.kind.program_images.build import ProgramImages, find
from clusters.provider import ClusterError


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """By which Docker is reached."""
    try:
        return engine_environment(dict(os.environ))
    except ClusterError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def images(environment: dict[str, str]) -> ProgramImages:
    """Those of this very checkout; building them takes too long for a test."""
    try:
        found = find(environment)
    except ClusterError as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("no images of this checkout in Docker: `make images` builds them")
    return found


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """A container without network, without capabilities, on a root that may only be read."""
    argv = ["docker", "run", "--rm", "--network=none", "--read-only", "--cap-drop=ALL", *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)


def facts(environment: dict[str, str], image: str) -> dict[str, Any]:
    argv = ["docker", "image", "inspect", image]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    config: dict[str, Any] = json.loads(done.stdout)[0]["Config"]
    return config


@pytest.mark.parametrize("name", ["extender", "device_plugin", "device_plugin_simulated", "player"])
def test_every_program_says_how_it_is_used(environment: dict[str, str], images: ProgramImages, name: str) -> None:
    """``docker run IMAGE --help``, with the least that a container may have."""
    done = run(environment, getattr(images, name), "--help")

    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


def test_the_extender_is_not_root(environment: dict[str, str], images: ProgramImages) -> None:
    """By number, so that the kubelet can tell."""
    assert facts(environment, images.extender)["User"] == "65532:65532"


@pytest.mark.parametrize("name", ["device_plugin_simulated", "player"])
def test_images_of_simulated_cards_say_so(environment: dict[str, str], images: ProgramImages, name: str) -> None:
    """In a label, for a reader that finds one on a node."""
    assert facts(environment, getattr(images, name))["Labels"]["gpushare.simulated"] == "true"


@pytest.mark.parametrize("name", ["extender", "device_plugin"])
def test_images_of_the_product_have_no_simulated_cards(
    environment: dict[str, str], images: ProgramImages, name: str
) -> None:
    """An image of the product has neither the package nor the command nor the label of simulated cards."""
    code = "import importlib.util, shutil; print(importlib.util.find_spec('fake_nvml'), shutil.which('fake-nvml'))"
    image = getattr(images, name)
    done = run(environment, "--entrypoint=/opt/gpushare/bin/python", image, "-c", code)

    assert done.stdout == "None None\n"
    assert "gpushare.simulated" not in facts(environment, image)["Labels"]


def test_the_simulated_plugin_sees_the_cards_of_a_state_file(
    environment: dict[str, str], images: ProgramImages, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Through the library in C, as old as the box's driver, without a compiler."""
    code = (
        "import pynvml as n; n.nvmlInit(); "
        "print(n.nvmlSystemGetDriverVersion(), n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(1)))"
    )
    script = ["fake-nvml init --box t4x2 --seed a1 >/dev/null", f'fake-nvml exec -- python -c "{code}"']
    words: Sequence[str] = ["--env=FAKENVML_STATE=/tmp/state", "--tmpfs=/tmp", "--entrypoint=/bin/sh"]
    done = run(environment, *words, images.device_plugin_simulated, "-c", " && ".join(script))

    assert done.stdout == "418.87.00 Tesla T4\n", done.stderr


def test_the_simulated_plugin_has_the_name_that_manifests_call(
    environment: dict[str, str], images: ProgramImages
) -> None:
    """With another image alone, the manifests of a site with real cards run on simulated ones."""
    done = run(environment, "--entrypoint=gpushare-device-plugin", images.device_plugin_simulated)

    assert done.returncode == 1
    assert "no state file" in done.stderr


def test_the_simulated_plugin_says_what_it_lacks(environment: dict[str, str], images: ProgramImages) -> None:
    """A node without a state file."""
    done = run(environment, images.device_plugin_simulated)

    assert done.returncode == 1
    assert "no state file /var/lib/gpushare-simulated/state; fake-nvml init makes one" in done.stderr


def test_the_player_runs_a_manifest_s_command(environment: dict[str, str], images: ProgramImages) -> None:
    """The player runs as a container's ``command``, not only as its ``args``."""
    done = run(environment, "--entrypoint=sh", images.player, "-c", "echo here; exit 6")

    assert (done.stdout, done.returncode) == ("here\n", 6)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    build_context.copy(build.CHECKOUT, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "gpushare/wire.py",
        "fake_nvml/core/layout.py",
        "Dockerfile",
        ".ci/constraints/product.txt",
        "clusters/kind/program_images/files/install.py",
        "clusters/kind/program_images/player/player.c",
    ],
)
def test_a_change_of_what_goes_in_changes_the_tag(copied: Path, name: str) -> None:
    """Sources, versions and steps alike."""
    before = build.digest(copied)
    (copied / name).write_text((copied / name).read_text() + "\n# changed\n")

    assert build.digest(copied) != before


def test_another_base_is_another_tag(copied: Path) -> None:
    """An image with the same programs on another base has another tag."""
    assert build.digest(copied, "one") != build.digest(copied, "other")


def test_pages_and_settings_of_tools_do_not_change_it(copied: Path) -> None:
    """A change of the README, or of a linter's rule, builds no image."""
    before = build.digest(copied)
    (copied / "README.md").write_text("another page")
    with (copied / "pyproject.toml").open("a") as file:
        file.write("\n[tool.strange]\nrule = 1\n")

    assert build.digest(copied) == before


def test_a_new_dependency_changes_it(copied: Path) -> None:
    """Though pyproject.toml is read by many tools."""
    before = build.digest(copied)
    page = (copied / "pyproject.toml").read_text()
    (copied / "pyproject.toml").write_text(page.replace('"msgspec>=', '"somewhat>=1", "msgspec>=', 1))

    assert build.digest(copied) != before


def test_bytecode_and_wheels_of_the_checkout_stay_behind(tmp_path: Path) -> None:
    """Files that another Python left are not in an image."""
    build_context.copy(build.CHECKOUT, tmp_path)

    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pyc", ".whl")]
