"""The result of a burst, as data and as text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Result:
    """The result of one burst."""

    seed: str
    pods: int = 0
    running: int = 0
    replaced: int = 0
    without_room: int = 0
    """Those of them that the plugin refused for want of room, after a kubelet's restart."""
    kept_out: int = 0
    """Pods that were replaced too: real kubelets did not offer them ids of pods that had ended."""
    repairs: int = 0
    other_sums: int = 0
    """Containers that were told another pod's sum, after a kubelet's restart."""
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)
    had: dict[str, int] = field(default_factory=dict)
    """How often something rare occurred in it."""

    def text(self) -> str:
        """One line, and a line for each finding."""
        line = (
            f"burst {self.seed}: {self.pods} pods, {self.running} run, "
            f"{self.replaced} replaced after a restart ({self.without_room} without room) or a refusal ({self.kept_out} kept out), "
            f"{self.repairs} repairs, {self.other_sums} told another pod's sum, {self.seconds:.1f} s"
        )
        return "\n".join([line, *(f"  {finding}" for finding in self.findings)])


def total(results: Sequence[Result]) -> str:
    """One line over all."""
    pods, running = sum(one.pods for one in results), sum(one.running for one in results)
    replaced, repairs = sum(one.replaced for one in results), sum(one.repairs for one in results)
    failed = sum(1 for one in results if one.findings)
    had = sum((Counter(one.had) for one in results), Counter[str]())
    rare = "".join(f", {count} {what.replace('_', ' ')}" for what, count in had.items())
    return (
        f"{pods} pods created, {running} ran in the end, {replaced} replaced after a restart "
        f"({sum(one.without_room for one in results)} without room) or a refusal "
        f"({sum(one.kept_out for one in results)} kept out), {repairs} repairs, "
        f"{sum(one.other_sums for one in results)} containers told another pod's sum, {failed} bursts with findings{rare}"
    )
