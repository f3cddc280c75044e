"""The steps of one burst: a pure function of a seed, so that a burst that failed can be played again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.builders import gpu_container

FEWEST_PODS: Final = 2
MOST_PODS: Final = 40
_MOST_CONTAINERS: Final = 3
# Amounts of one container, in units of a GiB; small and large ones, so that cards fill in many ways.
_AMOUNTS: Final = (1, 1, 2, 2, 3, 4, 5, 7, 9)
# The chance that a burst has a pod's init container, its sidecar, and that a plugin or a kubelet restarts in a step.
_INIT, _SIDECAR, _PLUGIN, _KUBELET = 0.15, 0.15, 0.04, 0.02
# The part of bursts in which all pods are alike, and so large that no two share a card: each can be mistaken for any other.
_TWINS: Final = 0.3
_TWIN_AMOUNTS: Final = (8, 9, 10)
_LONGEST_PAUSE_SECONDS: Final = 0.1
# The memory that a container holds for each unit that it asks for, in MiB: less than it may, as a driver keeps some for itself.
HELD_MIB_PER_UNIT: Final = 960


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod: units of each of its containers, 0 for none."""

    name: str
    containers: tuple[int, ...]
    init: int = 0
    sidecar: int = 0

    def manifest(self, suffix: str = "") -> dict[str, Any]:
        """The pod. Each container holds nearly what it asks for: a card with too many of them is out of memory."""
        init = [_container("init", self.init, EXITS_AFTER=0)] if self.init else []
        if self.sidecar:
            init.append(_container("sidecar", self.sidecar) | {"restartPolicy": "Always"})
        containers = [_container(f"c{number}", units) for number, units in enumerate(self.containers)]
        body = {"containers": containers, "initContainers": init, "terminationGracePeriodSeconds": 1}
        metadata = {"name": f"{self.name}{suffix}", "labels": {"burst-pod": self.name}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


@dataclass(frozen=True, slots=True)
class Step:
    """Actions that start together; then a pause. Restarts go on beside the next steps."""

    create: tuple[PodPlan, ...] = ()
    delete: tuple[str, ...] = ()
    restart_plugin: str = ""
    restart_kubelet: str = ""
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Burst:
    """One burst."""

    seed: str
    steps: tuple[Step, ...]

    @property
    def restarted(self) -> frozenset[str]:
        """The nodes on which a program restarts."""
        return frozenset(node for step in self.steps for node in (step.restart_plugin, step.restart_kubelet) if node)

    @property
    def kubelets(self) -> frozenset[str]:
        """The nodes on which the kubelet restarts."""
        return frozenset(step.restart_kubelet for step in self.steps if step.restart_kubelet)

    @property
    def deleted(self) -> frozenset[str]:
        """The pods that do not stay."""
        return frozenset(name for step in self.steps for name in step.delete)

    @property
    def staying(self) -> dict[str, PodPlan]:
        """The pods that stay, by name."""
        made = {pod.name: pod for step in self.steps for pod in step.create}
        return {name: pod for name, pod in made.items() if name not in self.deleted}


def make_burst(seed: str, nodes: Sequence[str], most_pods: int = MOST_PODS) -> Burst:
    """A burst on these nodes: 2 to ``most_pods`` pods of 1 to 3 containers, of few amounts, in a handful of steps."""
    rng = random.Random(seed)
    are_twins = rng.random() < _TWINS
    amounts = [rng.choice(_TWIN_AMOUNTS)] if are_twins else rng.sample(_AMOUNTS, rng.randint(1, 3))
    # Many small bursts and few large ones.
    count = min(rng.randint(FEWEST_PODS, most_pods), rng.randint(FEWEST_PODS, most_pods))
    names = [f"p{number:02}" for number in range(count)]
    pods = [PodPlan(name, (amounts[0],)) if are_twins else _pod(rng, name, amounts) for name in names]
    steps: list[Step] = []
    there: list[str] = []
    while pods:
        count = rng.randint(1, max(len(pods), 1))
        created, pods = pods[:count], pods[count:]
        leaving = [name for name in there if rng.random() < 0.3]
        there = [name for name in there if name not in leaving] + [pod.name for pod in created]
        steps.append(
            Step(
                create=tuple(created),
                delete=tuple(leaving),
                restart_plugin=rng.choice(nodes) if rng.random() < _PLUGIN else "",
                restart_kubelet=rng.choice(nodes) if rng.random() < _KUBELET else "",
                pause_seconds=rng.random() * _LONGEST_PAUSE_SECONDS,
            )
        )
    return Burst(seed, tuple(steps))


def _pod(rng: random.Random, name: str, amounts: Sequence[int]) -> PodPlan:
    containers = tuple(rng.choice(amounts) for _ in range(rng.choice((1, 1, 1, 2, _MOST_CONTAINERS))))
    init = rng.choice(amounts) if rng.random() < _INIT else 0
    return PodPlan(name, containers, init, rng.choice(amounts) if rng.random() < _SIDECAR else 0)


def _container(name: str, units: int, **plays: object) -> dict[str, Any]:
    return gpu_container(name, str(units), {"HOLDS_MIB": units * HELD_MIB_PER_UNIT, **plays})
