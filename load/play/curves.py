"""``python -m load curves``: the same load on clusters of several sizes; growth as numbers and pictures."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from clusters.embedded.scheduling.window import feasible_nodes_to_find
from load.load_commands import CLUSTERS, add_output, count
from load.load_reports import write
from load.play import growth, pictures
from load.play.growth import Cell
from load.play.load_plan import Plan
from load.play.play_running import Order
from load.play.run_command import measure
from load.simulated.cluster_file import build, read

_SIZES: Final = (100, 500, 1000, 5000, 15_000)
# In each question, where that is fixed.
_NAMES: Final = 100
# Pods a second.
_RATE: Final = 40
_EPILOG: Final = """Exit codes: 0 measured, and growth is as promised; 1 it could not be measured; 2 wrong flags; 99 growth
beyond what is promised; 130 stopped."""


def add_to(commands: Any) -> None:
    """The command, among others."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "curves",
        help="how latency and memory grow from 100 to 15,000 nodes",
        description="The same load on simulated clusters of several sizes, and with more names and more events.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    sizes = ",".join(map(str, _SIZES))
    add("--nodes", type=_sizes, default=_SIZES, metavar="N,N", help=f"of {sizes} (default: all)")
    add("--seconds", type=count, default=20, metavar="N", help="of each run (default: %(default)s)")
    add_output(parser, "load-results/curves")
    parser.set_defaults(name="load", run=_run)


def _run(flags: argparse.Namespace) -> int:
    rows = asyncio.run(_rows(flags))
    promises = growth.promises(rows)
    path = flags.output / "curves.json"
    said = [{**promise._asdict(), "is_kept": promise.is_kept} for promise in promises]
    write(path, {"rows": rows, "promises": said, "bytes_a_pod": growth.bytes_a_pod(rows)})
    paths = [path, *(pictures.draw_growth(rows, flags.output) if pictures.can_draw() else ())]
    print(growth.text(rows))
    print("\n" + "\n".join(f"wrote {one}" for one in paths))
    return 99 if any(promise.is_kept is False for promise in promises) else 0


async def _rows(flags: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each cell; each run has a folder of its own. Raises as ``measure``."""
    rows = []
    cells = growth.cells(flags.nodes, _NAMES)
    for number, cell in enumerate(cells, 1):
        names = cell.names or "as kube-scheduler"
        fit = "" if cell.fit is None else f", pods that fit on {cell.fit:.0%} of the nodes"
        print(
            f"load: {number} of {len(cells)}: {cell.nodes} nodes, names {names}, {cell.events} events/s{fit}",
            file=sys.stderr,
        )
        folder = flags.output / _folder(cell)
        run = await measure(_order(flags, cell, folder), folder)
        write(folder / "load.json", run)
        rows.append(growth.row(run, cell))
    return rows


def _folder(cell: Cell) -> str:
    fit = "" if cell.fit is None else f"-{100 * cell.fit:.0f}-percent-fit"
    return f"{cell.nodes}-nodes-{cell.names or 'window'}-names-{cell.events}-events{fit}"


def _order(flags: argparse.Namespace, cell: Cell, folder: Path) -> Order:
    path = CLUSTERS / f"nodes-{cell.nodes}.yaml"
    described = read(path)
    nodes = described.nodes
    plan = Plan(
        cluster=str(path),
        window=min(cell.names or feasible_nodes_to_find(nodes, 0), nodes),
        rate=_RATE,
        seconds=flags.seconds,
        units=0 if cell.fit is None else build(described).size_for(cell.fit),
        records=str(folder.resolve()),
    )
    return Order(plan, cell.events, shows_table=False)


def _sizes(text: str) -> tuple[int, ...]:
    found = tuple(sorted({count(word) for word in text.split(",")}))
    if not set(found) <= set(_SIZES):
        raise argparse.ArgumentTypeError(f"{text!r} has others than {', '.join(map(str, _SIZES))}")
    return found
