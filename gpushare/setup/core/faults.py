"""Faults, and what to do about them."""

from __future__ import annotations

from dataclasses import dataclass

from gpushare.errors import GpushareError


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong; each text is one line."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}\n  fix: {self.fix}"


class SetupRefusedError(GpushareError):
    """A node that is not changed, because the right change would be a guess."""

    def __init__(self, what: str, fix: str) -> None:
        self.fault = Fault(what, fix)
        super().__init__(str(self.fault))
