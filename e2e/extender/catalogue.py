"""The promises of the extender by id (``catalogue.yaml``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from e2e.catalogue import Catalogue

CATALOGUE: Final = Catalogue(
    title="promises of the extender (EXT) and of its dealings with the API server (API)",
    table=Path(__file__).parent / "catalogue.yaml",
    folder="e2e/extender/",
    ids=(*(f"EXT-{number:03}" for number in range(1, 39)), *(f"API-{number:03}" for number in range(1, 13))),
)
