"""The clusters of this repository; its name has nothing to do with gpushare."""

from pathlib import Path

MANIFESTS = Path(__file__).parent.parent / "manifests"
