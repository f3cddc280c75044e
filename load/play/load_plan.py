"""The plan of a run, as every Locust process of it reads it. Data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from load.bench.bench_connection import TlsFiles

# Where Locust's processes find the plan.
VARIABLE: Final = "GPUSHARE_LOAD_PLAN"


# The verbs of an extender and the paths behind its URL, as kube-scheduler's configuration has them.
VERBS: Final[Mapping[str, str]] = {"filter": "filter", "prioritize": "prioritize", "bind": "bind"}


class Asked(msgspec.Struct, frozen=True):
    """An extender that pods are scheduled with. ``url`` ends before the verbs; a run asks only ``verbs``, by these paths."""

    name: str
    url: str
    tls: TlsFiles | None = None
    verbs: dict[str, str] = msgspec.field(default_factory=lambda: dict(VERBS))

    def url_of(self, verb: str) -> str:
        """Where a verb is; one that is not in ``verbs`` (inspect, explain) has its own name."""
        return f"{self.url}/{self.verbs.get(verb, verb)}"


class Plan(msgspec.Struct, frozen=True):
    """One run: pods come to the API server at ``api``, and each is scheduled with one of ``extenders``, in turn.

    ``floor`` is the URL of a server that does nothing, which is asked the same questions; "" if there is none.
    ``weights``, of each second, are those of the shape ``trace``. ``window`` is how many nodes an extender sees of each question.
    Each pod asks for ``units``; 0: by the cluster. The other numbers are how many users there are of each kind.
    """

    cluster: str
    window: int
    rate: float
    seconds: float
    records: str
    api: str = ""
    extenders: tuple[Asked, ...] = ()
    floor: str = ""
    shape: str = "steady"
    weights: tuple[float, ...] = ()
    units: int = 0
    schedulers: int = 1
    inspectors: int = 0
    what_if: int = 0
    seed: int = 1


def load() -> Plan:
    """The plan of this process. Raises KeyError if it has none."""
    return msgspec.json.decode(Path(os.environ[VARIABLE]).read_bytes(), type=Plan)


def save(plan: Plan, path: Path) -> None:
    """For the processes to come."""
    path.write_bytes(msgspec.json.encode(plan))
