"""The cards of a node as its simulated containers see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from fake_nvml.fake_nvml_errors import CardFullError, FakeNvmlError
from fake_nvml.state import State

# Values of NVIDIA_VISIBLE_DEVICES by which a container asks for no card.
_NONE: Final = ("", "none", "void")


class CardView(Protocol):
    """The readings of one card; amounts in MiB."""

    @property
    def index(self) -> int:
        """NVML's index."""

    @property
    def uuid(self) -> str:
        """``GPU-…``."""

    @property
    def total_mib(self) -> int:
        """All memory of the card."""

    @property
    def used_mib(self) -> int:
        """The memory in use by all processes."""


class CardError(Exception):
    """A card cannot give a process its memory; the text is what the process would print."""


class Cards(Protocol):
    """Where simulated processes hold memory."""

    def cards(self) -> Sequence[CardView]:
        """The node's cards in NVML's order."""

    def add_process(self, uuid: str, pid: int, mib: int, name: str) -> None:
        """A process holds ``mib`` of a card from now on. Raises CardError if the card has less free."""

    def remove_process(self, uuid: str, pid: int) -> None:
        """The process is gone."""


class NoCards:
    """A node without a card."""

    def cards(self) -> Sequence[CardView]:
        """None."""
        return ()

    def add_process(self, uuid: str, pid: int, mib: int, name: str) -> None:
        """Impossible."""
        raise CardError(f"no card {uuid} for process {pid} ({name}, {mib} MiB): the node has none")

    def remove_process(self, uuid: str, pid: int) -> None:
        """Nothing to remove."""


class StateFileCards:
    """The simulated cards of a node's state file, which every program on the simulated NVML sees too."""

    def __init__(self, state: State) -> None:
        self._state = state

    def cards(self) -> Sequence[CardView]:
        """All cards of the file."""
        return self._state.cards()

    def add_process(self, uuid: str, pid: int, mib: int, name: str) -> None:
        """Write the process into the file. Raises CardError."""
        try:
            self._state.add_process(uuid, pid, mib, name)
        except CardFullError as error:
            raise CardError(f"CUDA out of memory: {error}") from error
        except FakeNvmlError as error:
            raise CardError(str(error)) from error

    def remove_process(self, uuid: str, pid: int) -> None:
        """Take it out again."""
        self._state.remove_process(uuid, pid)


def visible_cards(value: str | None, cards: Sequence[CardView]) -> tuple[CardView, ...]:
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
