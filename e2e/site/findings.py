"""One thing that is wrong on a cluster, and which findings to report: those that two looks in a row have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Severity = Literal["error", "warning"]
# Errors first.
_ORDER: Final[tuple[Severity, ...]] = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Finding:
    """``rule`` is the name of the invariant, ``subject`` the object (``node n1``, ``pod default/a``).

    An ``error``: sharing is broken or unsafe there. A ``warning``: it works, and will not stay so; or
    it could not be judged.
    """

    severity: Severity
    rule: str
    subject: str
    text: str
    todo: str

    @property
    def key(self) -> tuple[str, str]:
        """Findings with the same key are the same trouble, although numbers in their texts may differ."""
        return self.rule, self.subject


@dataclass(slots=True)
class Reported:
    """The findings of a run. A state that is on its way to another one is no finding, so one look alone proves nothing."""

    seen_before: dict[tuple[str, str], Finding] = field(default_factory=dict)
    confirmed: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def look(self, findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Take the findings of one look; return those that are new, and those of before that are gone.

        A finding that is gone stays in ``confirmed``: it was there.
        """
        now = {finding.key: finding for finding in findings}
        new = [finding for key, finding in now.items() if key in self.seen_before and key not in self.confirmed]
        gone = [self.seen_before[key] for key in self.seen_before if key in self.confirmed and key not in now]
        self.confirmed |= {finding.key: finding for finding in new}
        self.seen_before = now
        return in_order(new), in_order(gone)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then by object."""
    return sorted(findings, key=lambda one: (_ORDER.index(one.severity), one.subject, one.rule))


def counts(findings: Sequence[Finding]) -> str:
    """``2 errors, 1 warning``, or ``no findings``."""
    if not findings:
        return "no findings"
    amounts = [(name, sum(one.severity == name for one in findings)) for name in _ORDER]
    return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in amounts if count)
