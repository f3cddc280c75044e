"""A container on the simulated runtime gets what NVIDIA's own hook gives it, alone and below NVIDIA's runtime and runc."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.memory_limits import HookError, MemoryLimits
from clusters.provider import LimitSpec, NodeSpec
from clusters.simulated_node import new_cards
from fake_nvml.core.returns import DOES_NOTHING
from fake_nvml.state import State
from gpushare.deviceplugin.core.limit_devices import LimitDevice
from gpushare.deviceplugin.limit_devices import LimitDeviceFile
from tests.clusters.kubelet.nvidia_runtime import (
    LIMIT,
    REQUEST,
    Limits,
    Machine,
    NotRunnableError,
    Outcome,
    hook_error,
    kept,
)

BOTH = {REQUEST: "0", LIMIT: "4096"}
ON_BOTH = ((0, 0, 4096), (1, 0, 4096))
NODE = NodeSpec("n", "t4x2", "615")
SET = "nvmlDeviceSetMemoryLimits_v1"


@dataclass(frozen=True, slots=True)
class Row:
    """A container's variables, of the device plugin, its image and its author, and what becomes of it.

    In ``error``, ``{0}`` is the first card's UUID. ``prepare`` changes the cards; then NVIDIA's runtime itself may refuse the
    container, and the hook is asked alone.
    """

    plugin: Mapping[str, str]
    limits: Limits = ()
    error: str = ""
    image: Mapping[str, str] = field(default_factory=dict)
    author: Mapping[str, str] = field(default_factory=dict)
    visible: str = "all"
    box: str = "t4x2"
    driver: str = "615"
    spec: LimitSpec = field(default=LimitSpec())
    prepare: Callable[[State], object] | None = None

    def environment(self) -> list[str]:
        """The list in the container's specification."""
        merged = {**self.image, **self.plugin, **self.author}
        rows = [merged] if self.spec.order == "cri-o" else [self.image, self.plugin, self.author]
        return [f"{name}={value}" for row in rows for name, value in row.items()]


def unreadable(name: str, text: str, why: str = "invalid syntax") -> str:
    """The error for a variable that is no amount."""
    return f'1: failed to parse {name}: strconv.ParseUint: parsing "{text}": {why}'


NOT_SUPPORTED = '1: failed to set memory limits for gpu "{0}": Not Supported'
OLD = f"127: symbol lookup error: undefined symbol: {SET}"
ROWS = {
    "both": Row(BOTH, ON_BOTH),
    "one card": Row(BOTH, ((1, 0, 4096),), visible="1"),
    "limit alone": Row({LIMIT: "4096"}, ((0, 4096, 4096), (1, 4096, 4096))),
    "request alone": Row({REQUEST: "4096"}, ((0, 4096, None), (1, 4096, None))),
    "none": Row({}),
    "plural": Row({f"{REQUEST}S": "0", f"{LIMIT}S": "4096"}),
    "zero": Row({LIMIT: "0"}, ((0, 0, 0), (1, 0, 0))),
    "leading zero": Row({REQUEST: "0", LIMIT: "04096"}, ON_BOTH),
    "request above limit": Row({REQUEST: "2", LIMIT: "1"}, error="1: memory request (2 MiB) exceeds memory limit (1 MiB)"),
    **{repr(text): Row({LIMIT: text}, error=unreadable(LIMIT, text)) for text in ("4Gi", "", " 4", "-1", "+1", "1_0", "\u0663")},
    "both unreadable": Row({REQUEST: "a", LIMIT: "b"}, error=unreadable(REQUEST, "a")),
    "with a quote": Row({LIMIT: '1"'}, error=unreadable(LIMIT, r"1\"")),
    "too large": Row({LIMIT: "17592186044416"}, error=f"1: failed to parse {LIMIT}: 17592186044416 MiB exceeds the maximum "
                     "supported value of 17592186044415 MiB"),
    "no number": Row({REQUEST: str(2**64)}, error=unreadable(REQUEST, str(2**64), "value out of range")),
    "all of the card": Row({REQUEST: "0", LIMIT: "15360"}, ((0, 0, 15360), (1, 0, 15360))),
    "above the card": Row({REQUEST: "0", LIMIT: "15361"}, error='1: failed to set memory limits for gpu "{0}": Invalid Argument'),
    "the most": Row({LIMIT: "17592186044415"}, error='1: failed to set memory limits for gpu "{0}": Invalid Argument'),
    "image's": Row(BOTH, ((0, 0, 15000), (1, 0, 15000)), image={LIMIT: "15000"}),
    "image's alone": Row({}, ((0, 15000, 15000), (1, 15000, 15000)), image={LIMIT: "15000"}),
    "image's, CRI-O": Row(BOTH, ON_BOTH, image={LIMIT: "15000"}, spec=LimitSpec(order="cri-o")),
    "image's request": Row(BOTH, ((0, 8, 4096), (1, 8, 4096)), image={REQUEST: "8"}),
    "image's large request": Row(BOTH, image={REQUEST: "5000"}, error="1: memory request (5000 MiB) exceeds memory limit "
                                 "(4096 MiB)"),
    "author's request": Row(BOTH, ON_BOTH, author={REQUEST: "8"}),
    "author's request, CRI-O": Row(BOTH, ((0, 8, 4096), (1, 8, 4096)), author={REQUEST: "8"}, spec=LimitSpec(order="cri-o")),
    "author's": Row(BOTH, ON_BOTH, author={LIMIT: "15000"}),
    "author's, CRI-O": Row(BOTH, ((0, 0, 15000), (1, 0, 15000)), author={LIMIT: "15000"}, spec=LimitSpec(order="cri-o")),
    "misc": Row(BOTH, ON_BOTH, spec=LimitSpec(backend="misc")),
    "no backend": Row(BOTH, error=NOT_SUPPORTED, spec=LimitSpec(backend="none")),
    "switched off": Row(BOTH, error=NOT_SUPPORTED, spec=LimitSpec(switched_off=True)),
    "cgroup v1": Row(BOTH, error="1: setting GPU memory limits is only supported in cgroup v2", spec=LimitSpec(cgroup="v1")),
    "cgroup v1, none": Row({}, spec=LimitSpec(cgroup="v1")),
    "cgroup v1 and unreadable": Row({LIMIT: "x"}, error="1: setting GPU memory limits is only supported in cgroup v2",
                                    spec=LimitSpec(cgroup="v1")),
    "no hook": Row(BOTH, spec=LimitSpec(hook=False)),
    **{f"driver {driver}": Row(BOTH, error=OLD, driver=driver) for driver in ("610", "535")},
    "driver 610, none": Row({}, driver="610"),
    "driver 620": Row(BOTH, ON_BOTH, driver="620"),
    "card lost": Row(BOTH, ((0, 0, 4096),), "1: failed to get GPU device handle with uuid {1}: GPU is lost",
                     prepare=lambda state: state.lose(state.cards()[1].uuid)),
    "in MIG mode": Row(BOTH, error=NOT_SUPPORTED, box="a100x8",
                       prepare=lambda state: state.set_value(state.cards()[0].uuid, "mig", "on")),
    "keeps nothing": Row(BOTH, prepare=lambda state: state.add_fault(SET, code=DOES_NOTHING)),
    "no driver": Row(BOTH, error="1: failed to initialize nvml: Driver Not Loaded", prepare=lambda state: state.set_init_return(9)),
}  # fmt: skip


async def simulated(row: Row, folder: Path) -> Outcome:
    with new_cards(folder / "state", NodeSpec("n", row.box, row.driver, memory_limits=row.spec)) as state:
        if row.prepare:
            row.prepare(state)
        limits = MemoryLimits(folder / "cgroup", folder / "proc", Cards(state), row.spec, folder / "cdi")
        group, error = limits.begin("container"), ""
        try:
            variables = limits.variables(row.image, row.plugin, {**row.plugin, **row.author})
            await limits.apply(group, variables, row.visible)
        except HookError as failed:
            error = hook_error(str(failed))
        return named(Outcome(kept(state, group.stat().st_ino), error), state)


def real(row: Row, folder: Path, alone: bool) -> Outcome:
    """NVIDIA's, alone or below its runtime; skips if it cannot run here."""
    try:
        machine = Machine(folder, NodeSpec("n", row.box, row.driver, memory_limits=row.spec))
        with machine.state as state:
            if row.prepare:
                row.prepare(state)
            if not alone:
                return named(machine.container([f"NVIDIA_VISIBLE_DEVICES={row.visible}", *row.environment()]), state)
            cards = [card.uuid for card in state.cards() if row.visible in ("all", str(card.index))]
            return named(machine.hook(row.environment(), cards), state)
    except NotRunnableError as error:
        pytest.skip(str(error))


def named(outcome: Outcome, state: State) -> Outcome:
    """With places for UUIDs in its error."""
    error = outcome.error
    for card in state.cards():
        error = error.replace(card.uuid, f"{{{card.index}}}")
    return Outcome(outcome.limits, error)


def sides(row: Row) -> list[str]:
    has_hook, has_runtime = row.spec.hook, row.prepare is None
    return ["simulated", *["hook"] * has_hook, *["runtime"] * has_runtime]


@pytest.mark.parametrize(
    ("row", "side"),
    [pytest.param(row, side, id=f"{name}-{side}") for name, row in ROWS.items() for side in sides(row)],
)
async def test_a_container_gets_what_nvidias_hook_gives(row: Row, side: str, tmp_path: Path) -> None:
    """The limits and the error of the hook are the same on all sides."""
    outcome = await simulated(row, tmp_path) if side == "simulated" else real(row, tmp_path, side == "hook")

    assert outcome == Outcome(row.limits, row.error)


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """A machine with NVIDIA's runtime in a mode, for a kind of CDI devices."""
    try:
        machine = Machine(tmp_path, NODE, *getattr(request, "param", ()))
    except NotRunnableError as error:
        pytest.skip(str(error))
    with machine.state:
        yield machine


@pytest.mark.parametrize(
    ("node", "flags", "limits"),
    [
        (("cdi",), ["--mode=nvml"], ON_BOTH),
        (("cdi",), ["--mode=nvml", "--disable-hook=apply-cuda-memory-limits"], ()),
        (("cdi", "management.nvidia.com/gpu"), ["--mode=management", "--vendor=management.nvidia.com"], ()),
    ],
    ids=["whole", "without the hook", "management"],
    indirect=["node"],
)
def test_the_hook_comes_with_the_description_of_cards(node: Machine, flags: list[str], limits: Limits) -> None:
    """A CDI specification without it limits nothing, and the container starts."""
    node.describe(*flags)

    assert node.container(["NVIDIA_VISIBLE_DEVICES=all", *Row(BOTH).environment()]) == Outcome(limits)


@pytest.mark.parametrize("node", [("cdi",)], indirect=True)
@pytest.mark.parametrize("flags", [[], ["--disable-hook=apply-cuda-memory-limits"]], ids=["beside the hook", "alone"])
async def test_our_device_beats_every_variable(node: Machine, flags: list[str]) -> None:
    """Each card has a number of its own, whatever the container's variables name, also if the card's device has no hook."""
    node.describe("--mode=nvml", *flags)
    first, second = (card.uuid for card in node.state.cards())
    devices = [LimitDevice(first, 2048), LimitDevice(second, 6144)]
    await LimitDeviceFile(node.devices, node.command).add("u", devices)
    names = ["nvidia.com/gpu=all", *(one.full_name for one in devices)]

    limits = node.container([f"NVIDIA_VISIBLE_DEVICES={','.join(names)}", f"{REQUEST}=7", f"{LIMIT}=15000"])

    assert limits == Outcome(((0, 0, 2048), (1, 0, 6144)))


@pytest.mark.parametrize("node", [("cdi",)], indirect=True)
async def test_a_container_that_our_device_cannot_limit_does_not_start(node: Machine) -> None:
    """The error of NVIDIA's hook is that of the container; a limit above the card's memory is none."""
    node.describe("--mode=nvml")
    card = next(card.uuid for card in node.state.cards())
    device = LimitDevice(card, 15361)
    await LimitDeviceFile(node.devices, node.command).add("u", [device])

    outcome = node.container([f"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0,{device.full_name}"])

    assert outcome.error == f'1: failed to set memory limits for gpu "{card}": Invalid Argument'


def test_each_life_of_a_container_is_limited(node: Machine) -> None:
    """A container that is made again has a cgroup of its own, and no limit is left from before."""
    card, both = "NVIDIA_VISIBLE_DEVICES=all", Row(BOTH).environment()

    lives = [node.container([card, *more]) for more in (both, [], both)]

    assert lives == [Outcome(ON_BOTH), Outcome(), Outcome(ON_BOTH)]
