"""``python -m e2e validate`` and ``machine``: the cases on a cluster that exists, or on this machine's own cards.

On a cluster the plan comes first, and then, if agreed, the cases. ``machine`` needs a driver, and neither Kubernetes nor a network.
"""

from __future__ import annotations

import argparse
import asyncio
import os
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
from e2e.site import SiteError
from e2e.site.kubeconfig_choice import connection
from e2e.site.machine_preflight import machine_preflight
from e2e.site.node_cards import UnreadableError
from e2e.site.picture import Picture, as_arguments
from e2e.site.preflight_lines import as_text

_BARE: Final = "run the device plugin and real CUDA processes on this machine's cards, by a stand-in kubelet in an embedded cluster"
_HELP: Final = "run small pods on a cluster, and report what of sharing works there; prints its plan first"


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
    yield "- if a node's device plugin has --usage, one pod uses more of its card than it booked, on purpose; a second one books"
    yield "  the surplus on the same card"
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
