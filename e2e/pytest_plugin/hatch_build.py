"""Build hook of the wheel ``pytest-gpushare``: ``clusters`` and ``e2e`` go into it below ``pytest_gpushare``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(_CHECKOUT))

from e2e.pytest_plugin.wheel_content import lay_down  # noqa: E402  # the checkout is not on the path before


class Relocate(BuildHookInterface[Any]):
    """hatchling finds it by its base class."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lay the packages down."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="pytest-gpushare-")
        lay_down(_CHECKOUT, Path(self._folder.name))
        build_data["force_include"][self._folder.name] = "pytest_gpushare"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        if version != "editable":
            self._folder.cleanup()
