"""The inputs that decide an image's tag."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.program_images import context


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    context.copy(context.CHECKOUT, tmp_path)
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
    before = context.digest(copied)
    (copied / name).write_text((copied / name).read_text() + "\n# changed\n")

    assert context.digest(copied) != before


def test_another_base_is_another_tag(copied: Path) -> None:
    """An image with the same programs on another base has another tag."""
    assert context.digest(copied, "one") != context.digest(copied, "other")


def test_pages_and_settings_of_tools_do_not_change_it(copied: Path) -> None:
    """A change of the README, or of a linter's rule, builds no image."""
    before = context.digest(copied)
    (copied / "README.md").write_text("another page")
    with (copied / "pyproject.toml").open("a") as file:
        file.write("\n[tool.strange]\nrule = 1\n")

    assert context.digest(copied) == before


def test_a_new_dependency_changes_it(copied: Path) -> None:
    """Though pyproject.toml is read by many tools."""
    before = context.digest(copied)
    page = (copied / "pyproject.toml").read_text()
    (copied / "pyproject.toml").write_text(page.replace('"msgspec>=', '"somewhat>=1", "msgspec>=', 1))

    assert context.digest(copied) != before


def test_bytecode_and_wheels_of_the_checkout_stay_behind(tmp_path: Path) -> None:
    """Files that another Python left are not in an image."""
    context.copy(context.CHECKOUT, tmp_path)

    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pyc", ".whl")]
