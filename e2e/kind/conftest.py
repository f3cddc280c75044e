"""For runs on kind only; what this machine lacks for it is the reason of a skip."""

from __future__ import annotations

import pytest

from clusters.kind.engine.engine import engine_environment, reason_against
from clusters.providers import Choices
from clusters.simulated_node import environment_of_programs


@pytest.fixture(scope="session")
def docker_environment(request: pytest.FixtureRequest, choices: Choices) -> dict[str, str]:
    """With which `docker` reaches the Docker of the nodes."""
    if request.config.getoption("--cluster") != "kind":
        pytest.skip("about the provider kind: --cluster kind")
    environment = environment_of_programs(choices.environment)
    reason = reason_against(environment)
    if reason is not None:
        pytest.skip(reason)
    return engine_environment(environment)
