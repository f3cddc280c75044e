"""Promises of clusters.deploy.chart_tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.controlplane.binaries import cache_folder
from clusters.deploy.chart_tools import locate_tool, operator_kinds, tool_modules
from clusters.provider import ClusterError


@pytest.mark.parametrize("name", ["helm", "kustomize", "actionlint", "krew"])
def test_a_tool_is_found_once_it_is_built(tmp_path: Path, name: str) -> None:
    """In the pinned version; before, the error names the target that builds it."""
    environment = {"GPUSHARE_CACHE": str(tmp_path)}
    with pytest.raises(ClusterError, match=f"no {name}: `python -m clusters.deploy.chart_tools`"):
        locate_tool(name, environment)
    (module,) = (one for one in tool_modules() if name in one.packages)
    path = module.cache(cache_folder(environment)) / name
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)

    assert locate_tool(name, environment) == path


def test_the_operators_kinds_need_go(tmp_path: Path) -> None:
    """Without it the error names it."""
    with pytest.raises(ClusterError, match="no `go` on PATH"):
        operator_kinds({"PATH": str(tmp_path)})
