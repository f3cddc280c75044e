"""Which Xids make a card sick. Pure.

The rules and the two variables are those of NVIDIA's device plugin (internal/rm/health.go): faults that an application
causes on its own are ignored, every other Xid is critical; ``DP_DISABLE_HEALTHCHECKS`` adds to the ignored ones,
``DP_ENABLE_HEALTHCHECKS`` overrides both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Application errors, in the words of NVIDIA's catalogue: 13 graphics engine exception, 31 memory page fault, 43 GPU stopped
# processing, 45 preemptive cleanup due to previous errors, 68 video processor exception, 109 context switch timeout.
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
# Words that stand for every Xid.
_ALL: Final = frozenset({"all", "xids"})


@dataclass(frozen=True, slots=True)
class XidRules:
    """``enabled`` wins over ``ignored``; the booleans stand for all Xids that the other set does not name."""

    ignored: frozenset[int] = APPLICATION_XIDS
    enabled: frozenset[int] = frozenset()
    ignores_all: bool = False
    enables_all: bool = False

    def is_critical(self, xid: int) -> bool:
        """Does this Xid make its card sick?"""
        if self.enables_all or xid in self.enabled:
            return True
        return not self.ignores_all and xid not in self.ignored

    @property
    def hears_nothing(self) -> bool:
        """No Xid is critical: reports need not be read."""
        return self.ignores_all and not self.enabled and not self.enables_all


def read_rules(disable: str, enable: str) -> tuple[XidRules, tuple[str, ...]]:
    """The rules in the two variables, and the entries of them that are no Xids."""
    ignored, ignores_all, odd = _numbers(disable)
    enabled, enables_all, also_odd = _numbers(enable)
    return XidRules(APPLICATION_XIDS | ignored, enabled, ignores_all, enables_all), (*odd, *also_odd)


def _numbers(text: str) -> tuple[frozenset[int], bool, list[str]]:
    entries = [entry for part in text.split(",") if (entry := part.strip())]
    numbers = {int(entry) for entry in entries if entry.isascii() and entry.isdigit()}
    words = [entry for entry in entries if not (entry.isascii() and entry.isdigit())]
    return frozenset(numbers), any(word.lower() in _ALL for word in words), [w for w in words if w.lower() not in _ALL]
