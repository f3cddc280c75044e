"""The cards of a node as its simulated containers see them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fake_nvml.core.card_state import CardState
from fake_nvml.fake_nvml_errors import CardFullError, FakeNvmlError
from fake_nvml.guard import STATE_VARIABLE
from fake_nvml.native.build import library_folder
from fake_nvml.state import State

# Values of NVIDIA_VISIBLE_DEVICES by which a container asks for no card.
_NONE: Final = ("", "none", "void")
# The libraries in C show only the cards that it names, as NVIDIA's do in a container.
_VISIBLE_VARIABLE: Final = "FAKENVML_VISIBLE"


class CardError(Exception):
    """A card cannot give a process its memory; the text is what the process would print."""


class Cards:
    """The simulated cards of a node's state file, which every program on the simulated NVML sees too; none without a file."""

    def __init__(self, state: State | None = None) -> None:
        self._state = state

    def visible(self, value: str | None) -> tuple[CardState, ...]:
        """The cards that a container with this NVIDIA_VISIBLE_DEVICES sees."""
        return () if self._state is None else visible_cards(value, self._state.cards())

    def add_process(self, uuid: str, pid: int, mib: int, name: str) -> None:
        """A process holds ``mib`` of a card from now on. Raises CardError if the card has less free."""
        assert self._state is not None
        try:
            self._state.add_process(uuid, pid, mib, name)
        except CardFullError as error:
            raise CardError(f"CUDA out of memory: {error}") from error
        except FakeNvmlError as error:
            raise CardError(str(error)) from error

    def remove_process(self, uuid: str, pid: int) -> None:
        """The process is gone."""
        assert self._state is not None
        self._state.remove_process(uuid, pid)

    def device_files(self, uuids: Sequence[str]) -> list[str]:
        """The names of NVIDIA's files in the /dev of a container with these cards."""
        return [] if self._state is None else self._state.device_files(uuids)

    def libraries(self) -> Path:
        """The folder of the simulated NVML and CUDA libraries; builds what is missing. Raises CardError without a compiler."""
        assert self._state is not None
        try:
            return library_folder(self._state.driver())
        except FakeNvmlError as error:
            raise CardError(f"no simulated libraries: {error}") from error

    def variables(self, uuids: Sequence[str]) -> dict[str, str]:
        """The variables with which these libraries show the node's cards, and only these."""
        assert self._state is not None
        return {STATE_VARIABLE: str(self._state.path.absolute()), _VISIBLE_VARIABLE: ",".join(uuids)}


def visible_cards(value: str | None, cards: Sequence[CardState]) -> tuple[CardState, ...]:
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
