"""The card catalogue: the answers of NVML for each model, by driver era (``cards.yaml``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from fake_nvml import yaml_text
from fake_nvml.core.drivers import at_branch, branch
from fake_nvml.fake_nvml_errors import CatalogueError

T = TypeVar("T")

_FILE = Path(__file__).with_name("cards.yaml")


@dataclass(frozen=True, slots=True)
class CardModel:
    """One model. Tables are "first driver branch -> value"; memory in MiB; ``mig`` is the most slices, 0 for none.

    Clocks in MHz: graphics, memory, video. ``idle_state`` is the performance state of an idle card, ``pcie`` the generation
    of its link, ``fan`` the percent of an idle card's, None for a card that has none.
    """

    id: str
    names: Mapping[int, str]
    memory: Mapping[int, int]
    pci_device: int
    compute: tuple[int, int]
    watts: int
    brand: int
    data_center: bool
    reserved: Mapping[int, int] = field(default_factory=dict)
    nvlinks: int = 0
    mig: int = 0
    clocks: tuple[int, int, int] = (0, 0, 0)
    idle_clocks: tuple[int, int, int] = (0, 0, 0)
    idle_state: int = 8
    pcie: int = 0
    fan: int | None = None

    def name(self, driver: str) -> str:
        """The name under a driver. Raises CatalogueError if the driver is older than the card."""
        return self._known(at_branch(self.names, branch(driver)), driver)

    def memory_mib(self, driver: str) -> int:
        """The total under a driver, in MiB. Raises CatalogueError if the driver is older than the card."""
        return int(self._known(at_branch(self.memory, branch(driver)), driver))

    def reserved_mib(self, driver: str) -> int:
        """The memory that the driver shows as kept for itself, in MiB; before R510 it hid that from the total."""
        return at_branch(self.reserved, branch(driver)) or 0

    def _known(self, value: T | None, driver: str) -> T:
        if value is None:
            raise CatalogueError(
                f"driver {driver} does not know the card {self.id}; it needs {min(self.memory)} or newer"
            )
        return value


# Stands for a recorded card; its box has all that a model would have.
RECORDED = CardModel("recorded", {0: ""}, {0: 0}, pci_device=0, compute=(0, 0), watts=0, brand=0, data_center=False)


@functools.cache
def catalogue() -> Mapping[str, CardModel]:
    """All models by id."""
    entries = yaml_text.parse(_FILE.read_text(encoding="utf-8"))
    return MappingProxyType({name: _model(name, entry) for name, entry in entries.items()})


def model(name: str) -> CardModel:
    """One model. Raises CatalogueError with the ids that there are."""
    try:
        return catalogue()[name]
    except KeyError:
        raise CatalogueError(f"no card {name!r} in the catalogue; there are {', '.join(sorted(catalogue()))}") from None


def _model(name: str, entry: Mapping[str, object]) -> CardModel:
    fields = dict(entry)
    major, minor = str(fields.pop("compute")).split(".")
    memory, reserved = fields.pop("memory_mib"), fields.pop("reserved_mib", {})
    return CardModel(id=name, compute=(int(major), int(minor)), memory=memory, reserved=reserved, **fields)  # type: ignore[arg-type]  # cards.yaml has a test
