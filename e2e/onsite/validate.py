"""``python -m e2e validate`` and ``machine``: the cases on a cluster that exists, or on this machine's own cards.

On a cluster the plan comes first, and then, if agreed, the cases. ``machine`` needs a driver, and neither Kubernetes nor a network.
``carry FOLDER`` makes a folder with all that it needs: this checkout, the wheels of its locked lists for this Python on this kind
of machine, and the program ``run``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, PODS
from clusters.provider import ClusterError
from clusters.providers import BARE, EXISTING
from clusters.real_node import RealNode, machine_name
from e2e.onsite import site_options
from e2e.onsite.card_room import NodeRoom, room_on
from e2e.onsite.case_run import CODES_HELP, OK, add_report, report_folder, run_cases
from e2e.onsite.site_nodes import discovered, names_of
from e2e.onsite.tenancy import NAMESPACE, PRIORITY_CLASS
from e2e.report.sources import NOTE
from e2e.site import SiteError
from e2e.site.kubeconfig_choice import connection
from e2e.site.machine_preflight import machine_preflight
from e2e.site.node_cards import UnreadableError
from e2e.site.picture import Picture, as_arguments
from e2e.site.preflight_lines import as_text

_BARE: Final = "run the device plugin and real CUDA processes on this machine's cards, by a stand-in kubelet in an embedded cluster"
_HELP: Final = "run small pods on a cluster, and report what of sharing works there; prints its plan first"
_CARRY: Final = "make a folder to carry to a GPU machine without a network; FOLDER/run there is `python -m e2e machine`"
_CHECKOUT: Final = Path(__file__).parents[2]
# The lists of .ci/constraints that the cases need; the compiler builds the cards that a recording is replayed on.
_LISTS: Final = ("build", "compiler", "product", "cluster", "harness")
_HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
# The program of the folder, with the release of Python and the lists left open.
_RUN: Final = Path(__file__).with_name("carried_run.sh")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verbs; see ``look_verbs.add_verbs``."""
    parser = verbs.add_parser("validate", help=_HELP, description=_HELP, epilog=CODES_HELP)
    parser.set_defaults(run=_validate)
    site_options.add_options(parser.add_argument)
    parser.add_argument(
        "--target", default="gpushare", help="what is installed there: a name in e2e/targets, or a file"
    )
    add_report(parser)
    machine = verbs.add_parser("machine", help=_BARE, description=_BARE, epilog=CODES_HELP)
    add_report(machine)
    machine.set_defaults(run=_machine)
    carried = verbs.add_parser("carry", help=_CARRY, description=_CARRY)
    carried.add_argument("folder", type=Path, metavar="FOLDER", help="is made; must be empty if it is there")
    carried.add_argument(
        "--python",
        default=_HERE,
        metavar="VERSION",
        help="the Python of the GPU machine, as 3.12 (default: %(default)s, the one that runs this)",
    )
    carried.set_defaults(run=lambda arguments: carry(arguments.folder, arguments.python))


def _machine(arguments: argparse.Namespace) -> int:
    folder = report_folder(arguments.report)
    print(as_text(machine_preflight()), flush=True)  # noqa: T201  # a command's output
    try:
        RealNode(machine_name(), Path(), dict(os.environ)).look()
    except ClusterError as error:
        raise SiteError(f"nothing was tried: {error}") from error
    return run_cases(BARE, folder)


def _validate(arguments: argparse.Namespace) -> int:
    """The plan, and the cases if the administrator agreed."""
    folder = report_folder(arguments.report) if arguments.yes else None
    for line in asyncio.run(_look(arguments)):
        print(line, flush=True)  # noqa: T201  # a command's output
    if folder is not None:
        options = ["--target", arguments.target, *site_options.argv_of(vars(arguments))]
        return run_cases(EXISTING, folder, options)
    print("nothing was created; to go on, add --yes")  # noqa: T201
    return OK


async def _look(arguments: argparse.Namespace) -> list[str]:
    """The plan of a run, line by line. Raises SiteError."""
    try:
        async with ApiClient(connection(arguments)) as api:
            nodes, pods = await api.list(NODES), await api.list(PODS)
    except (ApiError, TransportError, OSError, ValueError) as error:
        raise SiteError(f"the cluster cannot be read: {error}") from error
    picture = Picture(nodes, pods)
    try:
        names = discovered(picture, names_of(arguments.nodes))
    except ValueError as error:
        raise SiteError(str(error)) from error
    if not names:
        labels = as_arguments(picture.placing_labels[0])
        some = " ".join(picture.left_out) or "NODE"
        raise SiteError(
            f"no node shares cards there: install gpushare (clusters/deploy/README.md), and kubectl label node {some} {labels}"
        )
    rooms = [_room(node, pods) for node in nodes if node["metadata"]["name"] in names]
    left_out = {} if arguments.nodes else picture.left_out
    return list(_plan(arguments, api.http.url, rooms, left_out))


def _plan(
    arguments: argparse.Namespace, url: str, rooms: Iterable[NodeRoom | str], left_out: Mapping[str, str]
) -> Iterable[str]:
    yield f"validation of {url}:"
    yield f"- creates namespace {NAMESPACE} and PriorityClass {PRIORITY_CLASS} if they are missing, and a lease and pods in the"
    yield "  namespace; removes in the end what it created, also after Ctrl-C"
    most = f"{arguments.max_units} units" if arguments.max_units else "8 GiB"
    yield f"- at most {arguments.max_pods} pods and {most} of card memory at a time, on these nodes only:"
    for room in rooms:
        if isinstance(room, str):
            yield f"    {room}"
        else:
            cards = ", ".join(f"card {card.index}: {card.free.units} of {card.units} units free" for card in room.cards)
            yield f"    {room.node}: {cards or 'no healthy card'}"
    for name, labels in left_out.items():
        yield f"- leaves out {name}, which has cards and lacks the label {labels}; to share and validate its cards:"
        yield f"    kubectl label node {name} {labels}"
    yield "- a case that does not fit beside the pods of others is not judged; its pods evict none of them (preemptionPolicy Never)"
    yield "- if a node's device plugin has --usage or --memory-limit, one pod asks for more of its card than it booked, on purpose;"
    yield "  a second one books the surplus on the same card"
    yield f"- image of the pods: {arguments.probe_image or 'that of the device plugin on the node'}"
    if arguments.allow_disruption:
        yield "- deletes the device plugin's pod of each node once (--allow-disruption)"
        if arguments.restart_kubelet:
            yield f"- restarts each node's kubelet by: {arguments.restart_kubelet}"
    else:
        yield "- restarts nothing (--allow-disruption is not given)"


def _room(node: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> NodeRoom | str:
    try:
        return room_on(node, pods)
    except UnreadableError as error:
        return f"{node['metadata']['name']}: its cards annotation cannot be read: {error}"


def carry(folder: Path, python: str = _HERE) -> int:
    """Fill the folder for this release of Python. Raises SiteError with the error of git or pip."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SiteError(f"{folder} is not empty")
    print(f"fetching wheels for Python {python} into {folder} (a minute)", flush=True)  # noqa: T201  # a command's output
    commit = _call("git", "-C", str(_CHECKOUT), "rev-parse", "--short=12", "HEAD")
    archive = ("archive", f"--add-virtual-file={NOTE}:{commit}", "--output", str((folder / "checkout.tar").absolute()))
    _call("git", "-C", str(_CHECKOUT), *archive, "HEAD")
    for name in _LISTS:
        # One after the other: two lists may have one file each of the same package.
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary=:all:")
        chosen = ("--python-version", python, "--dest", str(folder / "wheels"))
        _call(sys.executable, "-m", "pip", "download", *options, *chosen, f"--requirement={_path(name)}")
    run = folder / "run"
    lists = " ".join(f"--requirement checkout/{_path(name).relative_to(_CHECKOUT)}" for name in _LISTS)
    text = _RUN.read_text(encoding="utf-8").replace("@VERSION@", python).replace("@LISTS@", lists)
    run.write_text(text, encoding="utf-8")
    run.chmod(0o755)
    print(f"carry {folder} to the machine, and there: {folder.name}/run")  # noqa: T201
    return 0


def _path(name: str) -> Path:
    return _CHECKOUT / ".ci" / "constraints" / f"{name}.txt"


def _call(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise SiteError(f"{command[0]} is not there") from error
    except subprocess.CalledProcessError as error:
        raise SiteError(f"{' '.join(command[:4])} … ended with {error.returncode}: {error.stderr.strip()}") from error
