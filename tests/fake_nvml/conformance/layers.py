"""The layers that the suite runs over."""

from __future__ import annotations

from dataclasses import dataclass

OLDEST_PYNVML = "12.535.108"
DRIVERS = ("418.87.00", "470.57.02", "525.85.12", "535.104.05", "550.54.15", "580.65.06")


@dataclass(frozen=True)
class Layer:
    """The library below pynvml, and which pynvml ("" is the installed one)."""

    kind: str
    driver: str
    pynvml: str = ""

    @property
    def branch(self) -> int:
        """The driver's branch; a real driver counts as newer than all."""
        return int(self.driver.partition(".")[0] or 999)

    def __str__(self) -> str:
        parts = (self.kind, self.driver.partition(".")[0], self.pynvml and f"pynvml-{self.pynvml}")
        return "-".join(filter(None, parts))


SIMULATED = (
    *(Layer("simulated", driver) for driver in DRIVERS),
    *(Layer("simulated", driver, OLDEST_PYNVML) for driver in (DRIVERS[0], DRIVERS[3])),
    *(Layer("sanitized", driver) for driver in (DRIVERS[0], DRIVERS[-1])),
)
REAL = Layer("real", "")
