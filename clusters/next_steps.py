"""The lines that a user pastes into a shell: beside a cluster that is up, and after a demo, when the cluster has ended. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters.demo import SAMPLES
from clusters.living_demo import WAITING_POD

# The name of the copy of the kubeconfig, below the folder with the environment.
_COPY: Final = "demo.kubeconfig"
_INSPECT: Final = ("kubectl", "inspect", "gpushare")
_GPUSHARE: Final = ("kubectl", "gpushare")


def beside(
    kubeconfig: Path,
    scripts: Path,
    extender: str,
    states: Sequence[tuple[str, Path]],
    *,
    lives: bool,
    has_kubectl: bool,
) -> str:
    """``scripts`` is the folder of our console scripts, ``extender`` the address of its verbs, ``states`` the cards by node.

    ``lives``: the pod that waits is there already.
    """
    exports = [f"KUBECONFIG={_quoted(kubeconfig)}", f"PATH={_quoted(scripts)}:$PATH"]
    exports += [f"FAKENVML_STATE={_quoted(path)}" for _, path in states[:1]]
    latecomer = (f"kubectl apply -f {_quoted(SAMPLES / 'latecomer.yaml')}", "a pod that asks for 4 GiB of one card")
    commands = [*(() if lives else (latecomer,)), *_questions(SAMPLES, has_kubectl=has_kubectl)]
    commands += [("fake-nvml show", f"the cards of {name}") for name, _ in states[:1]]
    commands += [(f"fake-nvml show --state {_quoted(path)}", f"of {name}") for name, path in states[1:3]]
    lines = [f"export {' '.join(exports)}", *_with_answers(commands)]
    texts = [*(f"  {line}" for line in lines), f"the page: {extender}/ui", "Ctrl-C ends the cluster"]
    return "\n".join(["the cluster is up. In another terminal:", *texts])


def after(environment: Path, *, has_kubectl: bool) -> str:
    """To be pasted at the top of the checkout; ``environment`` is the folder of the virtual environment."""
    copy, scripts = environment / _COPY, environment / "bin"
    start = (f'make up ARGS="--demo --kubeconfig {copy}"', "in a terminal of its own; Ctrl-C ends it")
    export = (f"export KUBECONFIG={_from_here(copy)} PATH={_from_here(scripts)}:$PATH", "in another one")
    samples = SAMPLES.relative_to(SAMPLES.parents[2])
    lines = _with_answers([start, export, *_questions(samples, has_kubectl=has_kubectl)])
    return "\n".join(
        ["the cluster has ended. Six commands to go on, in this folder:", *(f"  {line}" for line in lines)]
    )


def _questions(samples: Path, *, has_kubectl: bool) -> list[tuple[str, str]]:
    """Commands about a cluster, each with what it answers; without kubectl its plugins are called by the names of their files."""
    glue = " " if has_kubectl else "-"
    # The pod itself has the node selector that explain judges, and the sample has none.
    given, file = (
        (f"kubectl get pod {WAITING_POD} -o yaml | ", "-") if has_kubectl else ("", _quoted(samples / "latecomer.yaml"))
    )
    inspect, gpushare = glue.join(_INSPECT), glue.join(_GPUSHARE)
    return [
        (f"{inspect} -d", "which pod has which card"),
        (f"{gpushare} explain {WAITING_POD}", "why it waits, or which card it has and why"),
        (f"{given}{gpushare} simulate -f {file}", "how many such pods fit, and where"),
        (f"{gpushare} events -A", "what the programs reported on pods and cards"),
    ]


def _with_answers(commands: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{command}    # {answer}" for command, answer in commands]


def _from_here(path: Path) -> str:
    return _quoted(path) if path.is_absolute() else f"$PWD/{_quoted(path)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
