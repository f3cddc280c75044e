"""The cards of a node as its simulated containers see them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import fake_nvml
from clusters.images import gpu_probe
from fake_nvml.core.card_state import CardState
from fake_nvml.fake_nvml_errors import CardFullError, FakeNvmlError
from fake_nvml.guard import STATE_VARIABLE
from fake_nvml.native.build import library_folder
from fake_nvml.state import State

# Values of NVIDIA_VISIBLE_DEVICES by which a container asks for no card.
_NONE: Final = ("", "none", "void")
# Variables that are passed on: where the driver and nvidia-smi are. Those that point to a simulated driver are not among them.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH", STATE_VARIABLE)
_NVIDIA_SMI: Final = Path(fake_nvml.__file__).with_name("nvidia_smi.py")
# The libraries in C show only the cards that this variable names, as NVIDIA's do in a container.
_VISIBLE_VARIABLE: Final = "FAKENVML_VISIBLE"


@dataclass(frozen=True, slots=True)
class RealCard:
    """A card of this machine, by NVML's index."""

    index: int
    uuid: str
    name: str
    total_mib: int
    used_mib: int


_C = TypeVar("_C", CardState, RealCard)


class CardError(Exception):
    """A card cannot give a process its memory; the text is what the process would print."""


class Cards:
    """The simulated cards of a node's state file, as every program on the simulated NVML sees them; none without a file."""

    def __init__(self, state: State | None = None) -> None:
        self.state = state

    def visible(self, value: str | None) -> tuple[CardState, ...]:
        """The cards that a container with this NVIDIA_VISIBLE_DEVICES sees."""
        return () if self.state is None else visible_cards(value, self.state.cards())

    def add_process(self, uuid: str, pid: int, mib: int, name: str, cgroup: Path) -> None:
        """A process of a cgroup holds ``mib`` of a card from now on. Raises CardError if the card or the limit has less free."""
        assert self.state is not None
        try:
            self.state.add_process(uuid, pid, mib, name, cgroup=cgroup)
        except CardFullError as error:
            raise CardError(f"CUDA out of memory: {error}") from error
        except FakeNvmlError as error:
            raise CardError(str(error)) from error

    def remove_process(self, uuid: str, pid: int) -> None:
        """The process is gone."""
        assert self.state is not None
        self.state.remove_process(uuid, pid)

    def environment_in(self, folder: Path, visible: str | None) -> dict[str, str]:
        """Fill ``dev/`` and ``bin/`` in ``folder``, which stand for /dev and PATH, and return the variables that point there.

        A container without cards gets no libraries, no nvidia-smi and no device files, as from NVIDIA's runtime. Raises
        CardError if the simulated libraries cannot be built.
        """
        dev, programs = folder / "dev", folder / "bin"
        for part in (dev, programs):
            part.mkdir()
        environment = {"PATH": str(programs), gpu_probe.DEV_VARIABLE: str(dev)}
        uuids = [card.uuid for card in self.visible(visible)]
        if self.state is None or not uuids:
            return environment
        for name in self.state.device_files(uuids):
            (dev / name).touch()
        script = programs / "nvidia-smi"
        script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-I", str(_NVIDIA_SMI)])} "$@"\n')
        script.chmod(0o755)
        return {**environment, **library_environment(self.state), _VISIBLE_VARIABLE: ",".join(uuids)}


class RealCards:
    """This machine's own cards, behind the same methods; ``look`` gives them. Simulated processes cannot hold their memory."""

    state = None

    def __init__(self, look: Callable[[], Sequence[RealCard]], environment: Mapping[str, str]) -> None:
        self._look = look
        self._environment = {name: environment[name] for name in _PASSED if name in environment}

    def visible(self, value: str | None) -> tuple[RealCard, ...]:
        """The cards that a container with this NVIDIA_VISIBLE_DEVICES would see."""
        return visible_cards(value, self._look())

    def add_process(self, uuid: str, pid: int, mib: int, name: str, _: Path) -> None:
        """Raises CardError: no process stands behind a simulated container."""
        raise CardError(f"{name} (pid {pid}) is simulated and cannot hold {mib} MiB of {uuid}, a real card")

    def remove_process(self, uuid: str, pid: int) -> None:
        """There is none."""

    def environment_in(self, folder: Path, visible: str | None) -> dict[str, str]:
        """The machine's own driver. CUDA obeys the variable; NVML shows all cards, as no container hides the others."""
        return {**self._environment, "CUDA_VISIBLE_DEVICES": ",".join(card.uuid for card in self.visible(visible))}


def library_environment(state: State) -> dict[str, str]:
    """The variables by which a program finds the library of simulated cards. Raises CardError if it cannot be built."""
    try:
        folder = library_folder(state.driver())
    except FakeNvmlError as error:
        raise CardError(f"no simulated libraries: {error}") from error
    return {"LD_LIBRARY_PATH": str(folder), STATE_VARIABLE: str(state.path.absolute())}


def visible_cards(value: str | None, cards: Sequence[_C]) -> tuple[_C, ...]:
    """The cards that NVIDIA's container runtime would put into a container with this NVIDIA_VISIBLE_DEVICES.

    Indices of NVML or UUIDs, separated by commas, or ``all``. An unset variable and a value that names anything else
    make no card visible: the real runtime refuses such a container, so nothing may be assumed about a card.
    """
    if value is None or value in _NONE:
        return ()
    if value == "all":
        return tuple(cards)
    known = {str(card.index): card for card in cards} | {card.uuid: card for card in cards}
    names = value.split(",")
    if any(name not in known for name in names):
        return ()
    return tuple({known[name].uuid: known[name] for name in names}.values())
