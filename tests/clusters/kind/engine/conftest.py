"""Machines within this one on which the engine runs for real (root; else skipped with the reason)."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.kind.engine.engine import ensure_kind
from tests.clusters.kind.engine.other_machine import Machine, machine, reason_against


@pytest.fixture(scope="package")
def environment() -> dict[str, str]:
    """This process's, with a kind that is built or there already."""
    reason = reason_against(Path(tempfile.gettempdir()), dict(os.environ))
    if reason is not None:
        pytest.skip(reason)
    kind = ensure_kind(dict(os.environ), io.StringIO())
    return {**os.environ, "PATH": f"{kind.parent}:{os.environ['PATH']}"}


@pytest.fixture(scope="package")
def shared(environment: dict[str, str]) -> Iterator[Machine]:
    """A machine on which the engine is up."""
    with tempfile.TemporaryDirectory(prefix="gs-") as folder, machine(Path(folder), environment) as one:
        one.engine("up")
        one.load_shell()
        yield one


@pytest.fixture
def fresh(environment: dict[str, str]) -> Iterator[Machine]:
    """A machine on which nothing ran yet."""
    with tempfile.TemporaryDirectory(prefix="gs-") as folder, machine(Path(folder), environment) as one:
        yield one
