"""From an earlier version of ours to this one and back, program by program: what runs goes on, and no card is booked twice."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from clusters.provider import DEVICE_PLUGIN, EXTENDER, Cluster, NodeSpec
from clusters.targets import Program, Target
from e2e.builders import gpu_pod
from e2e.earlier_version import unpack
from e2e.observer import Observer, OwnCluster, observing
from e2e.pytest_plugin.try_wheels import build, install

NODES: Final = ("one", "two")

pytestmark = [
    pytest.mark.needs("manifests"),
    pytest.mark.stand_in_only("a node's image holds the programs of one version"),
    pytest.mark.thorough("an environment for the earlier version is made"),
]


@dataclass(frozen=True, slots=True)
class Installed:
    """The programs of one version, in an environment of their own."""

    version: str
    folder: Path


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The earlier version: its wheel, and what its list has for it."""
    folder = tmp_path_factory.mktemp("former")
    checkout = unpack(folder)
    (wheel,) = build(folder / "wheels", checkout, ["."])
    python = install([wheel], folder / "environment", checkout, ["product"])
    return Installed(wheel.name.split("-")[1], python.parent)


@pytest.fixture(scope="module")
def present() -> Installed:
    """This version: the programs of the tests' own environment."""
    return Installed(version("gpushare-scheduler"), Path(sys.executable).parent)


class Links:
    """The programs behind links, which are changed between the end of a program and its next start."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder
        self._programs = {EXTENDER: target.extender, DEVICE_PLUGIN: target.device_plugin}
        self.target = replace(
            target, extender_or_none=self._linked(EXTENDER), device_plugin_or_none=self._linked(DEVICE_PLUGIN)
        )

    def choose(self, program: str, installed: Installed) -> None:
        """From its next start on the program is of that version."""
        link = self._folder / program
        link.unlink(missing_ok=True)
        link.symlink_to(installed.folder / self._programs[program].argv[0])

    def _linked(self, program: str) -> Program:
        """The program, started through its link, without a path that leads to the checkout."""
        known = self._programs[program]
        argv = (str(self._folder / program), *known.argv[1:])
        return replace(known, argv=argv, environment={**known.environment, "PYTHONPATH": ""})


async def switch(observer: Observer, links: Links, program: str, installed: Installed) -> None:
    """Exchange a program as an upgrade does; the plugins node by node."""
    links.choose(program, installed)
    for node in NODES if program == DEVICE_PLUGIN else [None]:
        await observer.cluster.kill(program, node)
        await observer.cluster.launch(program, node)
        assert version_of(observer.cluster, program, node) == installed.version


def version_of(cluster: Cluster, program: str, node: str | None = None) -> str:
    """The version that the running program has logged."""
    return str(re.findall(r"starting version=(\S+)", cluster.log(program, node))[-1])


@pytest.mark.parametrize("has_slots", [False, True], ids=["units", "slots"])
@pytest.mark.parametrize("order", [(EXTENDER, DEVICE_PLUGIN), (DEVICE_PLUGIN, EXTENDER)], ids=["extender", "plugin"])
async def test_programs_change_version_under_pods(
    request: pytest.FixtureRequest,
    own: OwnCluster,
    former: Installed,
    present: Installed,
    tmp_path: Path,
    order: Sequence[str],
    has_slots: bool,
) -> None:
    """The first program goes to this version, then the other, and both go back: each pair of versions shares cards.

    Pods that run keep their containers and cards in each step, new pods get cards beside them, and none gets a card without room.
    """
    assert former.version != present.version
    target: Target = request.getfixturevalue("slots_target" if has_slots else "target")
    gib = 1024 if has_slots else 1
    links = Links(tmp_path, target)
    for program in order:
        links.choose(program, former)
    # Two cards of 14 units on each node.
    nodes = [NodeSpec(name, "t4x2") for name in NODES]
    async with (
        own(nodes, links.target) as cluster,
        observing(cluster, "upgrade", mib_per_unit=1024 // gib) as observer,
    ):
        assert version_of(cluster, EXTENDER) == version_of(cluster, DEVICE_PLUGIN, "one") == former.version
        first = [f"{kind}-{node}" for kind in ("nine", "two-containers") for node in NODES]
        await observer.create(*(gpu_pod(f"nine-{node}", 9 * gib, node=node) for node in NODES))
        await observer.create(*(gpu_pod(f"two-containers-{node}", 2 * gib, gib, node=node) for node in NODES))
        lives = await observer.lives(*first)
        for step, (installed, program) in enumerate(product((present, former), order)):
            await switch(observer, links, program, installed)
            assert await observer.lives(*lives) == lives
            new = {f"new-{step}-{node}": node for node in NODES}
            await observer.create(*(gpu_pod(name, 3 * gib, node=node) for name, node in new.items()))
            lives |= await observer.lives(*new)
            # A whole card, and none of the node is empty.
            await observer.create(gpu_pod(f"too-much-{step}", 14 * gib, node="one"))
            await observer.waits_because(f"too-much-{step}", "nsufficient")
            await observer.check_all(*lives)
            await observer.delete(f"too-much-{step}", 0)
            await observer.are_gone(f"too-much-{step}")
