"""``python -m clusters``: a cluster in the foreground (up), the main job on one (demo), the end of clusters (down)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from clusters.api.admission_policies import keep_programs
from clusters.api.waiting import NotReachedError, meanwhile, unless
from clusters.controlplane.binaries import minors
from clusters.demo import (
    LIMITED_NODE,
    LIVING_NODES,
    PAUSE_SECONDS,
    SAMPLES,
    WAITING_POD,
    Demo,
    DemoError,
    live,
    say,
    settle,
)
from clusters.kind.sweeping import sweep_all
from clusters.kubeconfig_copy import Copy
from clusters.processes import running_clusters
from clusters.provider import Cluster, ClusterError, NodeSpec, load_nodes
from clusters.providers import CONTROL_PLANE, KIND, MADE, Choices, make_cluster
from clusters.simulated_node import environment_of_programs
from clusters.targets import Target, load_target

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


# A longer wait shows that it goes on, in seconds.
_TELL_SECONDS: Final = 2.0
_DEMO_NODES: Final = Path(__file__).parent / "simulated" / "demo.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all went well (also after Ctrl-C), 1 after a failure, 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s %(message)s")
    try:
        return _down(everywhere=arguments.all) if arguments.verb == "down" else asyncio.run(_with_cluster(arguments))
    except (ClusterError, DemoError, NotReachedError) as error:
        print(f"{arguments.verb}: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return 1


def _down(*, everywhere: bool) -> int:
    """End this checkout's clusters, or all; then remove the containers of its runs, or of all runs, that were killed."""
    code = running_clusters.end_all(say, everywhere=everywhere)
    for name in asyncio.run(sweep_all(dict(os.environ), everywhere=everywhere)):
        say(f"removed the containers of {name}, whose run was killed")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clusters", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, text in (
        ("up", "start a cluster in the foreground; Ctrl-C ends it"),
        ("demo", "run the main job, step by step"),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        one.add_argument(
            "--provider", default="embedded", choices=sorted(MADE), help="kind of cluster (default: %(default)s)"
        )
        one.add_argument(
            "--nodes",
            type=Path,
            metavar="FILE",
            help="YAML of nodes and their cards (default: the demo's three)",
        )
        one.add_argument(
            "--target",
            default="gpushare",
            help="whose programs run: a name in e2e/targets, or a file (default: %(default)s)",
        )
        one.add_argument(
            "--kubernetes",
            default=minors()[0],
            choices=minors(),
            help="minor of Kubernetes, where the control plane is real (default: %(default)s)",
        )
        one.add_argument(
            "--assets",
            type=Path,
            metavar="DIR",
            help="folder with ready kube-apiserver, etcd and kubectl (default: $KUBEBUILDER_ASSETS)",
        )
        one.add_argument(
            "--speed",
            type=float,
            default=1.0,
            metavar="FACTOR",
            help="how fast time passes in the cluster (default: 1)",
        )
        one.add_argument(
            "--node-image",
            default="",
            metavar="IMAGE",
            help="image of the nodes, where they are containers (default: the one that `make kind` builds)",
        )
        one.add_argument(
            "--image-base",
            default="",
            metavar="IMAGE",
            help="image with Python that those of our programs are built on, where they are containers "
            "(default: one of this machine's Debian packages)",
        )
        one.add_argument("--kubeconfig", type=Path, metavar="OUT", help="write a kubeconfig here as well")
        one.set_defaults(lives=False, stays=verb == "up")
        if verb == "demo":
            text = "leave the cluster up afterwards, until Ctrl-C"
            one.add_argument("--keep", action="store_true", dest="stays", help=text)
        else:
            one.add_argument(
                "--demo",
                action="store_true",
                dest="lives",
                help="with life: pods come and go, one waits, one uses more than it booked, a card becomes unhealthy and recovers",
            )
    text = "end the clusters of this checkout that are still up, and remove what killed ones left"
    down = verbs.add_parser("down", help=text, description=text)
    down.add_argument("--all", action="store_true", help="those of the user's other checkouts too; says which it ends")
    return parser


async def _with_cluster(arguments: argparse.Namespace) -> int:
    """Start, do what was asked, end; a signal at any time ends it in good order."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    target = load_target(arguments.target, os.environ)
    nodes = _nodes(arguments, target)
    copy = Copy(arguments.kubeconfig) if arguments.kubeconfig is not None else None
    choices = Choices(
        dict(os.environ),
        arguments.kubernetes,
        arguments.assets,
        arguments.speed,
        lambda kubeconfig: _offer(kubeconfig, copy),
        arguments.node_image,
        arguments.image_base,
    )
    cluster = make_cluster(arguments.provider, nodes, target, choices)
    say(f"starting a cluster of {len(nodes)} nodes ({_what_is_real(arguments)})")
    last_words = ""
    with running_clusters.record():
        try:
            async with _telling("starting"):
                if not await unless(ended, cluster.start):
                    return 0
            if arguments.verb == "demo":
                environment = environment_of_programs(dict(os.environ))
                demo = Demo(cluster, target, environment, say, limits=LIMITED_NODE in nodes)
                if not await unless(ended, demo.run):
                    return 0
                demo.step("every step was as said")
            if arguments.stays:
                await _stay(arguments, cluster, nodes, ended)
            else:
                last_words = after(_near(Path(sys.prefix)), has_kubectl=_has_kubectl())
            return 0
        finally:
            say("ending the cluster")
            async with _telling("ending"):
                await cluster.stop()
            if copy is not None:
                copy.remove()
            if last_words:
                say(last_words)


def _nodes(arguments: argparse.Namespace, target: Target) -> list[NodeSpec]:
    """Those of the file that is named, or of the demo. Raises ClusterError."""
    if arguments.lives and (arguments.provider == KIND or arguments.nodes):
        raise ClusterError("--demo has nodes of its own, on the embedded cluster or the real control plane")
    has_limits = arguments.verb == "demo" and arguments.provider != KIND and "memory-limit" in target.claims
    nodes = load_nodes(arguments.nodes or (LIVING_NODES if arguments.lives else _DEMO_NODES))
    return [*nodes, LIMITED_NODE] if has_limits and not arguments.nodes else nodes


async def _stay(arguments: argparse.Namespace, cluster: Cluster, nodes: list[NodeSpec], ended: asyncio.Event) -> None:
    """Print the ways to it, and keep it until a signal, with life if that was asked for."""
    if arguments.provider != KIND:
        await keep_programs(cluster.api)
    states = [(node.name, cluster.nvml_state(node.name)) for node in nodes if node.box != "none"]
    if arguments.lives:
        await settle(cluster)
    scripts, extender = Path(sys.executable).parent, cluster.extender_url()
    steps = beside(cluster.kubeconfig, scripts, extender, states, lives=arguments.lives, has_kubectl=_has_kubectl())
    say(steps)
    if arguments.lives:
        await unless(ended, partial(live, cluster, PAUSE_SECONDS / arguments.speed))
    await ended.wait()


def _what_is_real(arguments: argparse.Namespace) -> str:
    if arguments.provider == KIND:
        return f"the real Kubernetes {arguments.kubernetes} in containers; cards are simulated"
    simulated = "machines, containers and cards are simulated"
    if arguments.provider == CONTROL_PLANE:
        return f"control plane: the real Kubernetes {arguments.kubernetes}; {simulated}"
    return f"control plane: embedded, in this process; {simulated}"


def _near(path: Path) -> Path:
    """From the working directory, if it is below that."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _has_kubectl() -> bool:
    return shutil.which("kubectl") is not None


def _telling(what: str) -> contextlib.AbstractAsyncContextManager[None]:
    """Every two seconds that it takes, say that it is still going on."""
    start = time.monotonic()

    async def tell() -> None:
        while True:
            await asyncio.sleep(_TELL_SECONDS)
            say(f"{what}: {time.monotonic() - start:.0f} s")

    return meanwhile(tell())


def _offer(kubeconfig: Path, copy: Copy | None) -> None:
    """Print where the cluster is, and write its kubeconfig if a file was named."""
    say(f"the API server answers; in another terminal: export KUBECONFIG={kubeconfig}")
    if copy is not None:
        copy.put(kubeconfig)


if __name__ == "__main__":
    sys.exit(main())
