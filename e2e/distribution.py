"""Which process of pytest-xdist runs which cases: a file is not torn apart, nor are files that share costly clusters.

A session's fixtures are set up once in each process that needs them. The comparison with the real control plane starts two of
those; with its files dealt out to all processes, as ``--dist loadfile`` does, each would start two of its own.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# Folders whose cases share what is dear.
_TOGETHER: Final = ("e2e/parity/",)


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out files, and some folders whole; those with the most cases first."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return next((folder for folder in _TOGETHER if path.startswith(folder)), path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByCluster | None:
    """In place of ``--dist loadfile``; another way that somebody asks for is theirs."""
    return ByCluster(config, log) if config.getoption("dist") == "loadfile" else None
