"""A stage for each case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.providers import Choices
from clusters.targets import Target
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer


@pytest_asyncio.fixture(loop_scope="session")
async def stage(
    request: pytest.FixtureRequest, observer: Observer, target: Target, choices: Choices, tmp_path: Path
) -> AsyncIterator[ExtenderUnderTest]:
    """The session's extender, in a namespace of the case's own."""
    stage = ExtenderUnderTest(observer, target, choices, request.config.getoption("--cluster"), tmp_path)
    try:
        yield stage
    finally:
        await stage.close()


@pytest.fixture
def name(stage: ExtenderUnderTest) -> str:
    """The node of the case."""
    return f"{stage.namespace}-node"
