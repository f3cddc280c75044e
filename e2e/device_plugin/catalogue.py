"""The promises of the device plugin by id (``catalogue.yaml``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.catalogue import Catalogue

CATALOGUE: Final = Catalogue(
    title="promises of the device plugin (DP) and of its reading of PodResources (PR)",
    table=Path(__file__).parent / "catalogue.yaml",
    folder="e2e/device_plugin/",
    ids=(*(f"DP-{number:03}" for number in range(1, 24)), *(f"PR-{number:03}" for number in range(1, 7))),
)
