"""The programs of the real control plane, of which the pages need kubectl."""

from __future__ import annotations

from tests.clusters.conftest import binaries

__all__ = ["binaries"]
