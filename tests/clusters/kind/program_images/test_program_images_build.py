"""This checkout's images: their content if Docker has them, the files that decide their tag, the start of the simulated plugin."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from clusters.kind.engine.docker_client import docker
from clusters.kind.engine.engine import engine_environment
from clusters.kind.program_images import build, build_context
from clusters.kind.program_images.build import CHECKOUT
from clusters.provider import ClusterError


def test_images_of_the_product_simulate_no_cards() -> None:
    """An image of the product has nothing of simulated cards, and the extender's user is not root, by number."""
    try:
        environment = engine_environment(dict(os.environ))
        images = build.find(environment)
    except ClusterError as error:
        pytest.skip(str(error))
    if images is None:
        pytest.skip("no images of this checkout in Docker: `make kind` builds them")
    code = "import importlib.util, shutil; print(importlib.util.find_spec('fake_nvml'), shutil.which('fake-nvml'))"
    for image in (images.extender, images.device_plugin):
        least = ["--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--entrypoint=/opt/gpushare/bin/python"]
        done = docker(["run", *least, image, "-c", code], environment, 300)
        assert done == "None None\n"
        assert "gpushare.simulated" not in docker(["inspect", "--format={{.Config.Labels}}", image], environment)

    assert docker(["inspect", "--format={{.Config.User}}", images.extender], environment) == "65532:65532\n"


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
    """An image that is there must not hide another source, version, step or base."""
    before = build.digest(copied, "base")
    (copied / name).write_text((copied / name).read_text() + "\n# changed\n")

    assert len({before, build.digest(copied, "base"), build.digest(copied, "other")}) == 3


def test_of_the_project_file_only_what_makes_a_wheel_counts(copied: Path) -> None:
    """A new dependency changes the tag, and neither a page nor the settings of another tool do."""
    page, before = copied / "pyproject.toml", build.digest(copied)
    (copied / "README.md").write_text("another page")
    page.write_text(page.read_text() + "\n[tool.strange]\nrule = 1\n")
    assert build.digest(copied) == before

    page.write_text(page.read_text().replace('"msgspec>=', '"somewhat>=1", "msgspec>=', 1))
    assert build.digest(copied) != before


PROGRAM = CHECKOUT / "clusters/kind/program_images/files/simulated_plugin.py"


def test_it_refuses_where_a_real_driver_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The simulated plugin refuses a node with a real driver even if FAKENVML_STATE is set; its cards would not exist there."""
    monkeypatch.setenv("FAKENVML_STATE", str(tmp_path / "state"))
    main = runpy.run_path(str(PROGRAM))["main"]

    assert main(tmp_path) == 1
    assert "a real NVIDIA driver" in capsys.readouterr().err
