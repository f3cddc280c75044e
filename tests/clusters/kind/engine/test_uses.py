"""Promises of clusters.kind.engine.uses: a Docker is ended by the last that uses it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from clusters.kind.engine.engine import down
from clusters.kind.engine.place import Place
from clusters.kind.engine.uses import Use, Uses
from clusters.provider import ClusterError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A Docker that is not there: what is decided before anything is ended needs none."""
    return Place(tmp_path / "docker", tmp_path / "cache/docker")


@pytest.fixture
def checkouts(tmp_path: Path) -> tuple[str, str]:
    """Two folders."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return str(tmp_path / "one"), str(tmp_path / "two")


def registered(place: Place, *checkouts: str) -> Uses:
    """The uses, after ``up`` of these checkouts."""
    uses = Uses(place.uses)
    with uses.locked():
        for checkout in checkouts:
            uses.register(checkout)
    return uses


def said_by_down(place: Place, checkout: str, *, force: bool = False) -> str:
    """The lines of ``down`` of a checkout; no Docker answers, so it ends there."""
    out = io.StringIO()
    environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{place.run}/none"}
    down(environment, out, place, checkout=checkout, force=force)
    return out.getvalue()


def test_the_last_checkout_ends_it(place: Place, checkouts: tuple[str, str]) -> None:
    """In either order; a checkout that has only built images so far counts too."""
    for first, last in (checkouts, checkouts[::-1]):
        registered(place, *checkouts)

        assert f"it stays for the checkout {last}" in said_by_down(place, first)
        assert said_by_down(place, last) == "docker: no private Docker is up\n"
    registered(place, *checkouts)
    forced = said_by_down(place, checkouts[0], force=True)
    assert forced.startswith(f"docker: ending it under the checkout {checkouts[1]}\n")


def test_a_removed_checkout_keeps_nothing_up(place: Place, checkouts: tuple[str, str]) -> None:
    """A checkout without its folder keeps nothing up, because it can never call ``down``."""
    registered(place, *checkouts)
    Path(checkouts[1]).rmdir()

    assert said_by_down(place, checkouts[0]) == "docker: no private Docker is up\n"


def test_a_stray_file_is_no_use(place: Place, checkouts: tuple[str, str]) -> None:
    """A stray file in the folder counts as no use."""
    uses = registered(place, checkouts[0])
    for name, text in (("a.checkout", "not ours"), ("b.checkout", "[]"), ("c.run", "{"), ("notes", "")):
        (place.uses / name).write_text(text)

    with uses.locked():
        assert uses.all() == [Use(checkouts[0])]


def test_a_folder_that_is_a_link_is_not_trusted(place: Place, tmp_path: Path) -> None:
    """Another user may have put it there."""
    place.uses.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="not this user's"), Uses(place.uses).locked():
        pass
