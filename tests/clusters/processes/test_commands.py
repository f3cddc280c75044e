"""Promises of clusters.processes.commands."""

from __future__ import annotations

import io
import os

import pytest

from clusters.processes.commands import run, watch
from clusters.processes.progress import Progress
from clusters.provider import ClusterError

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def watched(argv: list[str]) -> None:
    """As a build watches it."""
    with Progress("build", "it", io.StringIO()) as progress:
        watch(argv, ENVIRONMENT, progress)


@pytest.mark.parametrize("start", [lambda argv: run(argv, ENVIRONMENT), watched], ids=["run", "watch"])
def test_failure_shows_the_end_of_the_output(start) -> None:
    """The error shows the command, its exit code and the last lines of both streams."""
    with pytest.raises(ClusterError) as raised:
        start(["sh", "-c", "seq 1000; echo why >&2; exit 3"])

    assert "sh -c" in str(raised.value)
    assert "ended with 3" in str(raised.value)
    assert str(raised.value).endswith("1000\nwhy")
    assert len(str(raised.value).splitlines()) < 30
