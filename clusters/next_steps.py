"""The next steps for a person with a cluster from ``make up``, as lines to paste into another shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from clusters.demo import SAMPLES


def next_steps(kubeconfig: Path, scripts: Path, extender: str, states: Sequence[tuple[str, Path]]) -> str:
    """The lines.

    ``scripts`` is the folder of our console scripts, ``extender`` the URL before its verbs, and ``states`` the state files of
    simulated cards by node.
    """
    exports = [f"KUBECONFIG={_quoted(kubeconfig)}", f"PATH={_quoted(scripts)}:$PATH"]
    exports += [f"FAKENVML_STATE={_quoted(path)}" for _, path in states[:1]]
    lines = [
        "the cluster is up. In another terminal:",
        f"  export {' '.join(exports)}",
        f"  kubectl apply -f {_quoted(SAMPLES / 'binpack-1-deployment.yaml')}",
        "  kubectl inspect gpushare -d    # which pod has which card (without kubectl: kubectl-inspect-gpushare -d)",
        f"  curl {extender}/explain/default/POD    # why a pod waits",
    ]
    if states:
        lines.append(f"  fake-nvml show    # the cards of {states[0][0]}")
        lines += [f"  fake-nvml show --state {_quoted(path)}    # of {name}" for name, path in states[1:3]]
    return "\n".join([*lines, "Ctrl-C ends the cluster"])


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
