"""The original's tables: ``python -m e2e.reference.reference_inspect [-d] [NODE]``, KUBECONFIG in the environment."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from e2e.reference import reference_faults
from e2e.reference.reference_api import Api, RefusedError
from e2e.reference.reference_pods import Faults, Object, card_sizes, full_name, is_over, node_of, shares, units

_PENDING: Final = -1
_GAP: Final = 2
_SUMMARY_DASHES: Final = 20
_DETAIL_DASHES: Final = 10
# More in one card than this is not GiB.
_MOST_GIB: Final = 100


@dataclass(slots=True)
class Row:
    """One node with its pods, each with its units by card."""

    name: str
    address: str
    sizes: list[int]
    total: int
    pods: list[tuple[Object, dict[int, int]]] = field(default_factory=list)

    def used(self, card: int) -> int:
        """The units on one card."""
        return sum(amounts.get(card, 0) for _, amounts in self.pods)

    @property
    def all_used(self) -> int:
        """The units that pods have, also those without a card."""
        return sum(sum(amounts.values()) for _, amounts in self.pods)


def rows(nodes: Iterable[Object], pods: Iterable[Object], faults: Faults) -> list[Row]:
    """The nodes that have card memory, by name, with their pods."""
    on: dict[str, list[tuple[Object, dict[int, int]]]] = defaultdict(list)
    for pod in sorted(pods, key=full_name):
        amount = units(pod, faults)
        is_left_out = is_over(pod) and "terminated-counted" not in faults
        is_left_out |= bool(pod["metadata"].get("deletionTimestamp")) and "leaving-not-counted" in faults
        if node_of(pod) and amount and not is_left_out:
            cards = shares(pod)
            on[node_of(pod)].append(
                (pod, dict.fromkeys(cards, amount) if len(cards) == 1 else cards or {_PENDING: amount})
            )
    found = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        total = int((node["status"].get("capacity") or {}).get("aliyun.com/gpu-mem", 0))
        if total:
            name = node["metadata"]["name"]
            sizes = [size for size, _ in card_sizes(node)]
            found.append(Row(name, _address(node), sizes, total, on[name]))
    return found


def summary(table: Sequence[Row], faults: Faults) -> str:
    """One line a node."""
    cards, pending = _cards(table), _has_pending(table, faults)
    heads = [f"GPU{card}(Allocated/Total)" for card in range(cards)] + ["PENDING(Allocated)"] * pending
    lines = [["NAME", "IPADDRESS", *heads, f"GPU Memory({_unit(table, faults)})"]]
    for row in table:
        amounts = [f"{row.used(card)}/{row.sizes[card] if card < len(row.sizes) else 0}" for card in range(cards)]
        amounts += [str(row.used(_PENDING))] * pending
        lines.append([row.name, row.address, *amounts, f"{_shown(row, faults)}/{row.total}"])
    dashes = _dashes(("\t".join(line) + "\n" for line in lines[1:2]), _SUMMARY_DASHES, faults) if table else ""
    return f"{_aligned(lines)}{dashes}\nAllocated/Total GPU Memory In Cluster:\n{_whole(table, faults)}  \n"


def details(table: Sequence[Row], faults: Faults) -> str:
    """One block a node, one line a pod."""
    text, dashes = "", ""
    for row in table:
        pending = _has_pending([row], faults)
        cards = [*range(len(row.sizes)), *([_PENDING] * pending)]
        heads = [f"GPU{card}(Allocated)" if card != _PENDING else "Pending(Allocated)" for card in cards]
        lines = [
            [pod["metadata"]["name"], pod["metadata"]["namespace"], *(str(amounts.get(card, 0)) for card in cards), ""]
            for pod, amounts in row.pods
        ]
        dashes = dashes or _dashes(("\t".join(line) + "\n" for line in lines), _DETAIL_DASHES, faults)
        used = _shown(row, faults)
        block = [
            ["NAME", "NAMESPACE", *heads, ""],
            *lines,
            ["Allocated :", f"{used} ({_percent(used, row.total, faults)}%)", ""],
            ["Total :", str(row.total), ""],
        ]
        top = _aligned([["NAME:", row.name], ["IPADDRESS:", row.address]])
        text += f"\n{top}\n{_aligned(block)}{dashes}\n"
    return f"{text}\n\nAllocated/Total GPU Memory In Cluster:  {_whole(table, faults)}  \n"


def _address(node: Object) -> str:
    addresses = node["status"].get("addresses") or ()
    return next((str(one["address"]) for one in addresses if one["type"] == "InternalIP"), "unknown")


def _cards(table: Sequence[Row]) -> int:
    return max((len(row.sizes) for row in table), default=0)


def _has_pending(table: Sequence[Row], faults: Faults) -> bool:
    return any(row.used(_PENDING) for row in table) and "pending-left-out" not in faults


def _unit(table: Sequence[Row], faults: Faults) -> str:
    sizes = [size for row in table for size in row.sizes]
    if not sizes:
        return ""
    return "MiB" if sizes[0] > _MOST_GIB and "unit-always-gib" not in faults else "GiB"


def _shown(row: Row, faults: Faults) -> int:
    return row.all_used - (row.used(_PENDING) if "total-of-shown-cards" in faults else 0)


def _percent(used: int, total: int, faults: Faults) -> int:
    if not total:
        return 0
    return round(100 * used / total) if "percent-rounded" in faults else 100 * used // total


def _whole(table: Sequence[Row], faults: Faults) -> str:
    used, total = sum(_shown(row, faults) for row in table), sum(row.total for row in table)
    return f"{used}/{total} ({_percent(used, total, faults)}%)"


def _dashes(lines: Iterable[str], more: int, faults: Faults) -> str:
    return "-" * (sum(map(len, lines)) + more - ("dashes-one-short" in faults))


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns two blanks apart; the last text of a line is no cell. A column ends at a line that has no such cell."""
    padded = [list(line) for line in lines]
    for column in range(max(map(len, lines)) - 1):
        block: list[int] = []
        for number, line in enumerate([*lines, ()]):
            if len(line) - 1 > column:
                block.append(number)
                continue
            width = max((len(lines[one][column]) for one in block), default=0) + _GAP
            for one in block:
                padded[one][column] = lines[one][column].ljust(width)
            block = []
    return "".join("".join(line) + "\n" for line in padded)


async def _table(node: str, kubeconfig: Path, faults: Faults) -> list[Row]:
    async with Api.at(kubeconfig) as api:
        nodes = (
            [await api.send("GET", f"/api/v1/nodes/{node}")]
            if node
            else (await api.send("GET", "/api/v1/nodes"))["items"]
        )
        return rows(nodes, (await api.send("GET", "/api/v1/pods"))["items"], faults)


def main() -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-d", action="store_true", help="a line for each pod")
    parser.add_argument("node", nargs="?", default="")
    reference_faults.add_flags(parser, "inspect")
    arguments = parser.parse_args()
    faults = reference_faults.chosen(arguments, os.environ, "inspect")
    try:
        table = asyncio.run(_table(arguments.node, Path(os.environ["KUBECONFIG"]), faults))
    except (RefusedError, aiohttp.ClientError, OSError, ValueError) as error:
        sys.stderr.write(f"no table: {error}\n")
        return 1
    text = details(table, faults) if arguments.d else summary(table, faults)
    if "blanks-cut" in faults:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
