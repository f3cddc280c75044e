"""Promises of clusters.kind.engine.uses: a Docker is not ended under a run."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from clusters.kind.engine import uses
from clusters.kind.engine.docker_client import Place
from clusters.kind.engine.engine import down
from clusters.provider import ClusterError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A Docker that is not there: what is decided before anything is ended needs none."""
    return Place(tmp_path / "docker", tmp_path / "cache/docker")


def said_by_down(place: Place, checkout: str, *, force: bool = False) -> str:
    """The lines of ``down`` of a checkout; no Docker answers, so it ends there."""
    out = io.StringIO()
    environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{place.run}/none"}
    down(environment, out, place, checkout=checkout, force=force)
    return out.getvalue()


def test_down_does_not_end_it_under_a_run(place: Place) -> None:
    """A run of the same checkout is an error, one of another keeps it up, and the file of a run that has ended counts as none."""
    gone = "docker: no private Docker is up\n"
    with uses.run(place.uses, "/one", "cases"):
        (place.uses / "stray.run").write_text("{")
        with pytest.raises(ClusterError, match=r"process \d+ of /one \(cases\): end that run first"):
            said_by_down(place, "/one")
        assert "it stays for process" in said_by_down(place, "/two")
        forced = said_by_down(place, "/two", force=True)
        assert (forced.startswith("docker: ending it under process"), forced.endswith(gone)) == (True, True)

    assert said_by_down(place, "/one") == gone
    assert [path.name for path in place.uses.iterdir()] == ["lock"]


def test_a_folder_that_is_a_link_is_not_trusted(place: Place, tmp_path: Path) -> None:
    """Another user may have put it there."""
    place.uses.symlink_to(tmp_path)
    with pytest.raises(ClusterError, match="not this user's"), uses.locked(place.uses):
        pass
