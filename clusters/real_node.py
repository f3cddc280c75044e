"""This machine's own cards as those of a node: its driver, a device plugin on it, and processes that really use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from clusters.images.behaviour import PROBE
from clusters.kubelet.kubelet_cards import RealCard
from clusters.processes.commands import output_of
from clusters.processes.program import Program
from clusters.provider import ClusterError
from clusters.simulated_node import plugin_program
from clusters.targets import Target

BOX: Final = "real"
"""The box of a NodeSpec whose cards are this machine's."""
# The longest wait for a driver, which may set up its cards again at each question, in seconds.
_LOOK_SECONDS: Final = 120


class RealNode:
    """The node ``name``; ``folder`` is its /var/lib/kubelet, short enough for unix sockets."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.folder = folder
        self._environment = environment

    @property
    def state_file(self) -> Path:
        """Raises ClusterError: these cards are not simulated."""
        self._refuse()

    def look(self) -> tuple[RealCard, ...]:
        """The cards as NVML shows them to a process of its own. Raises ClusterError with NVML's error."""
        argv = [sys.executable, "-I", "-c", PROBE, "look"]
        done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, timeout=_LOOK_SECONDS)
        parts = [json.loads(line) for line in done.stdout.splitlines()]
        nvml: dict[str, Any] = next((part for part in parts if part["part"] == "nvml"), {"error": done.stderr})
        if "error" in nvml:
            raise ClusterError(f"the cards of this machine: {nvml['error']}")
        return tuple(_card(card) for card in nvml["cards"])

    def cards(self) -> list[dict[str, Any]]:
        """See the seam."""
        return [
            {
                "index": card.index,
                "uuid": card.uuid,
                "name": card.name,
                "memory": {"total_mib": card.total_mib, "used_mib": card.used_mib},
                "processes": [],
            }
            for card in self.look()
        ]

    def has_unknown_memory(self) -> bool:
        """Does no card report how much memory it has?"""
        return not any(card.total_mib for card in self.look())

    async def fake_nvml(self, *arguments: str) -> str:
        """``show`` is nvidia-smi's answer; all else raises ClusterError."""
        if arguments != ("show",):
            self._refuse()
        return await output_of(["nvidia-smi"], self._environment)

    def device_plugin(self, target: Target, kubeconfig: Path, arguments: Sequence[str]) -> Program:
        """The plugin on the machine's driver."""
        return plugin_program(
            target, self.name, self.folder, kubeconfig, arguments, self._environment, sys_root=Path("/sys")
        )

    def _refuse(self) -> NoReturn:
        raise ClusterError(f"the cards of {self.name} are real: nothing about them is simulated")


def _card(card: Mapping[str, Any]) -> RealCard:
    if "error" in card:
        raise ClusterError(f"card {card['index']} of this machine: {card['error']}")
    return RealCard(card["index"], card["uuid"], card["name"], card["total_mib"], card["used_mib"])


def machine_name() -> str:
    """The machine's name as a node's: lower-case letters, digits, points and hyphens."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in os.uname().nodename.lower())
    return name.strip("-")[:63].rstrip("-") or "machine"
