"""The cards of a box and their models, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fake_nvml.core.drivers import at_branch, branch
from fake_nvml.fake_nvml_errors import CatalogueError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CardModel:
    """One model. Tables are "first driver branch -> value"; memory in MiB; ``mig`` is the most slices, 0 for none.

    ``nvlinks`` lead to ``nvswitches``, or without one from each card of ``nvlink_peers`` to the others.

    Clocks in MHz: graphics, memory, video. ``idle_state`` is the performance state of an idle card, ``pcie`` the generation
    of its link, ``fan`` the percent of an idle card's, None for a card that has none. ``last`` is the last branch that knows it.
    """

    id: str
    names: Mapping[int, str]
    memory: Mapping[int, int]
    pci_device: int
    compute: tuple[int, int]
    watts: int
    brands: Mapping[int, int]
    data_center: bool
    reserved: Mapping[int, int] = field(default_factory=dict)
    nvlinks: int = 0
    nvswitches: int = 0
    nvlink_peers: int = 0
    mig: int = 0
    clocks: tuple[int, int, int] = (0, 0, 0)
    idle_clocks: tuple[int, int, int] = (0, 0, 0)
    idle_state: int = 8
    pcie: int = 0
    fan: int | None = None
    last: int | None = None

    def name(self, driver: str) -> str:
        """The name under a driver. Raises CatalogueError if the driver does not know the card."""
        return self._known(at_branch(self.names, branch(driver)), driver)

    def memory_mib(self, driver: str) -> int:
        """The total under a driver, in MiB. Raises CatalogueError if the driver does not know the card."""
        return int(self._known(at_branch(self.memory, branch(driver)), driver))

    def brand(self, driver: str) -> int:
        """NVML's number of the brand under a driver. Raises CatalogueError if the driver does not know the card."""
        return int(self._known(at_branch(self.brands, branch(driver)), driver))

    def reserved_mib(self, driver: str) -> int:
        """The memory that the driver shows as kept for itself, in MiB; before R510 it hid that from the total."""
        return at_branch(self.reserved, branch(driver)) or 0

    def _known(self, value: T | None, driver: str) -> T:
        if value is None or (self.last is not None and branch(driver) > self.last):
            known = f"{min(self.memory)} or newer" if self.last is None else f"one of {min(self.memory)} to {self.last}"
            raise CatalogueError(f"driver {driver} does not know the card {self.id}; it needs {known}")
        return value


# Stands for a recorded card; its box has all that a model would have.
RECORDED = CardModel(
    "recorded", {0: ""}, {0: 0}, pci_device=0, compute=(0, 0), watts=0, brands={0: 0}, data_center=False
)


@dataclass(frozen=True, slots=True)
class BoxCard:
    """One card of a box; ``serial`` is empty if the model has none, ``numa`` None if it is not known.

    ``fields`` are those of a recorded card, instead of the model's; ``refused`` the codes of the calls that the card does
    not answer, by the keys of ``answers``; ``beside`` how many cards right before it are below the same PCIe root.
    """

    model: CardModel
    uuid: str
    serial: str
    numa: int | None
    fields: Mapping[str, int | bytes] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    beside: int = 0
