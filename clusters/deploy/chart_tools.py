"""``python -m clusters.deploy.chart_tools``: build helm and kustomize, which tests render the manifests with, from pinned sources.

The same builds actionlint, which checks the workflows, and krew, which installs plugins of kubectl, and fetches the definitions of
the Prometheus operator's kinds. Users of the manifests need none of them: kubectl has kustomize inside it, and a chart is for sites
that have helm.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import Module, cached, module_of
from clusters.controlplane.build import ensure_modules
from clusters.processes.commands import exit_code_of, run
from clusters.provider import ClusterError

_BINARIES: Final = Path(__file__).parent / "binaries"
_COMMAND: Final = "chart-tools"
_OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator"
_KINDS: Final = ("servicemonitors", "prometheusrules")


def tool_modules() -> tuple[Module, ...]:
    """The programs, each in its pinned version."""
    helm, kustomize = "helm.sh/helm/v4", "sigs.k8s.io/kustomize/kustomize/v5"
    actionlint, krew = "github.com/rhysd/actionlint", "sigs.k8s.io/krew"
    return (
        module_of(_BINARIES / "helm", "helm", helm, {"helm": f"{helm}/cmd/helm"}),
        module_of(_BINARIES / "kustomize", "kustomize", kustomize, {"kustomize": kustomize}),
        module_of(_BINARIES / "actionlint", "actionlint", actionlint, {"actionlint": f"{actionlint}/cmd/actionlint"}),
        module_of(_BINARIES / "krew", "krew", krew, {"krew": f"{krew}/cmd/krew"}),
    )


def locate_tool(name: str, environment: Mapping[str, str]) -> Path:
    """A program that was built. Raises ClusterError, which names the target that builds it."""
    for module in tool_modules():
        if name in (found := cached(module, environment)):
            return found[name]
    raise ClusterError(f"no {name}: `python -m clusters.deploy.chart_tools` builds it (needs Go, takes minutes, once)")


def operator_kinds(environment: Mapping[str, str]) -> list[Path]:
    """The definitions of those kinds that components/monitoring uses, from Go's cache. Raises ClusterError without them."""
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise ClusterError(f"no `go` on PATH, whose cache has {_OPERATOR}")
    settings = {**environment, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    found = json.loads(run(["go", "mod", "download", "-json", _OPERATOR], settings, _BINARIES / "prometheus-operator"))
    folder = Path(found["Dir"]) / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in _KINDS]


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``; 2 for a call that makes no sense."""
    argparse.ArgumentParser(prog="python -m clusters.deploy.chart_tools", description=__doc__).parse_args(argv)
    return exit_code_of(_COMMAND, lambda: _build(dict(os.environ)))


def _build(environment: Mapping[str, str]) -> None:
    ensure_modules(tool_modules(), environment, sys.stderr)
    operator_kinds(environment)


if __name__ == "__main__":
    sys.exit(main())
