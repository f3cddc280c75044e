"""The cards of a machine, recorded and replayed in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.providers import BARE
from e2e.onsite import machine_recording
from e2e.onsite.site import Site
from e2e.onsite.site_results import VISIT


async def test_a_recording_replays_the_machine(
    request: pytest.FixtureRequest, site: Site, node: str, tmp_path: Path
) -> None:
    """Simulated cards with the recording of a machine give every answer of NVML that the machine gave."""
    if request.config.getoption("--cluster") != BARE:
        pytest.skip("cards are recorded on the machine itself: python -m e2e machine")
    recording = request.config.stash[VISIT].recordings[node]
    again = await machine_recording.replay(recording, tmp_path)

    assert again["driver"] == recording["driver"]
    assert again["system"] == recording["system"]
    assert again["cards"] == recording["cards"]
