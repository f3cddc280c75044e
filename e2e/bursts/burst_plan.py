"""The steps of one burst: a pure function of a seed, so that a burst that failed can be played again, and made smaller.

``7/12`` is a burst; ``7/12-p03-gaps`` is the same one without a pod and without what a word of ``PARTS`` stands for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from e2e import spec
from e2e.builders import gpu_container, plain_container
from e2e.bursts.world import FOREIGN

FEWEST_PODS: Final = 2
MOST_PODS: Final = 40
NAMESPACES: Final = ("bursts", "bursts-2")
# A class of pods that stand before others in the scheduler's queue, and preempt none.
URGENT: Final = "bursts-urgent"
# Amounts of one container, in units of a GiB; small and large ones, so that cards fill in many ways. A card's size is one, too.
_AMOUNTS: Final = (1, 1, 2, 2, 3, 4, 5, 7, 9)
# One pod of a burst may wish for 8 units on one card and 3 on another. No other container asks for 11 units: the plugin cannot
# exchange such a pod with one on a single card.
_SPLIT_UNITS: Final = (8, 3)
# The chance that a pod has one more init container or sidecar, and that a plugin, a kubelet or the extender restarts in a step.
_INIT, _PLUGIN, _KUBELET, _EXTENDER = 0.3, 0.04, 0.02, 0.05
# The chances of a plain container, of each trait of a pod, and of a step in a gap.
_PLAIN, _GAP, _SPLIT, _SPLIT_OF_TWINS = 0.2, 0.2, 0.8, 0.2
_ENDS, _LOST, _URGENT, _MARKED, _FORGED, _ELSEWHERE, _EDITED = 0.12, 0.1, 0.2, 0.3, 0.15, 0.3, 0.1
# The chance that the first pod of a burst uses a card and asks for none.
_STRAY: Final = 0.3
# The chance that a pod of a burst uses more than it booked, and by how many MiB each of its containers does: less than its
# neighbours leave of theirs.
_GREEDY, _BEYOND = 0.6, 8
# The chance that one pod asks for more than a card has, if they are not alike: its first container alone, or both together.
_TOO_LARGE: Final = 0.7
# The part of bursts in which all pods are alike, and so large that no two share a card: each can be mistaken for any other.
_TWINS, _TWINS_OF_LARGE = 0.3, 0.6
_LONGEST_PAUSE_SECONDS: Final = 0.1
# Seconds after which a container of such a pod ends.
_ENDS_AFTER: Final = 0.3
# The part of its memory that a container holds: less than it may, as a driver keeps some for itself.
_HELD: Final = 15 / 16
ENDS_LABEL: Final = "burst-ends"
# An author writes a booking of its own, which a scheduler writes over.
_FORGED_BOOKING: Final[dict[str, str]] = {
    spec.POD_INDEX: "0",
    spec.POD_UNITS: "1",
    spec.POD_DEVICE_UNITS: "1",
    spec.POD_ASSIGNED: "true",
    spec.POD_ASSUME_TIME: "1",
    spec.POD_ALLOCATION: '{"c0": {"0": 1}}',
    spec.POD_REPAIR: "1",
}
POD_LABEL: Final = "burst-pod"


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod: units of each of its containers, 0 for none.

    ``inits`` are units of each init container, and whether it is a sidecar. ``called`` names its object. Another namespace may
    have a pod of that name, and so may an earlier pod. ``ends`` is the phase in which it ends. One that ``is_lost`` has the
    phase Unknown after the burst. One that ``is_marked`` has metadata of another program, and one that ``is_forged`` a booking that
    its author wrote. ``split`` are the units that it wishes for on each of several cards. ``is_edited``: an administrator changes
    its card after the burst. One that ``is_stray`` asks for no card, and its author names one for it; one that
    ``is_greedy`` holds more than it asks for.
    """

    name: str
    containers: tuple[int, ...]
    inits: tuple[tuple[int, bool], ...] = ()
    namespace: str = NAMESPACES[0]
    called: str = ""
    ends: str = ""
    is_lost: bool = False
    is_marked: bool = False
    is_forged: bool = False
    split: tuple[int, ...] = ()
    is_urgent: bool = False
    is_edited: bool = False
    is_stray: bool = False
    is_greedy: bool = False
    mib_per_unit: int = spec.MIB_PER_UNIT

    def manifest(self, suffix: str = "") -> dict[str, Any]:
        """The pod. Each container holds nearly what it asks for: a card with too many of them is out of memory."""
        # The memory of a card that a container does not choose would be another's.
        holds = {"HOLDS_MIB": int(self.is_stray)} if self.split or self.is_stray else {}
        init = [
            self._container(f"i{number}", units) | {"restartPolicy": "Always"}
            if is_sidecar
            else self._container(f"i{number}", units, EXITS_AFTER=0)
            for number, (units, is_sidecar) in enumerate(self.inits)
        ]
        ends = {"EXITS_AFTER": _ENDS_AFTER, "EXIT_CODE": int(self.ends == "Failed")} if self.ends else {}
        containers = [
            self._container(f"c{number}", units, **ends, **holds) for number, units in enumerate(self.containers)
        ]
        containers[0]["env"] += [{"name": spec.ENV_VISIBLE, "value": "0"}] if self.is_stray else []
        body = {"containers": containers, "initContainers": init, "terminationGracePeriodSeconds": 1}
        body |= {"restartPolicy": "Never"} if self.ends else {}
        body |= {"priorityClassName": URGENT} if self.is_urgent else {}
        foreign = dict(FOREIGN) if self.is_marked else {}
        own = dict(_FORGED_BOOKING) if self.is_forged else {}
        own |= {spec.WISH_SPLIT: ", ".join(map(str, self.split))} if self.split else {}
        foreign["annotations"] = {**foreign.get("annotations", {}), **own}
        labels = {POD_LABEL: self.name, **({ENDS_LABEL: self.ends} if self.ends else {}), **foreign.get("labels", {})}
        metadata = {
            **foreign,
            "name": f"{self.called or self.name}{suffix}",
            "namespace": self.namespace,
            "labels": labels,
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}

    def _container(self, name: str, units: int, **plays: object) -> dict[str, Any]:
        held = units * self.mib_per_unit
        plays = {"HOLDS_MIB": held + _BEYOND if self.is_greedy and units else int(held * _HELD), **plays}
        return gpu_container(name, str(units), plays) if units else plain_container(name, plays)


@dataclass(frozen=True, slots=True)
class Step:
    """Actions that start together; then a pause. Restarts go on beside the next steps.

    In a gap the programs stand still and see none of it: their watches break, and what is deleted is gone before the first is
    created. All is at rest before it.
    """

    create: tuple[PodPlan, ...] = ()
    delete: tuple[str, ...] = ()
    restart_plugin: str = ""
    restart_kubelet: str = ""
    restart_extender: bool = False
    is_gap: bool = False
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
    def made(self) -> dict[str, PodPlan]:
        """All pods, by name."""
        return {pod.name: pod for step in self.steps for pod in step.create}

    @property
    def deleted(self) -> frozenset[str]:
        """The pods that do not stay."""
        return frozenset(name for step in self.steps for name in step.delete)

    @property
    def staying(self) -> dict[str, PodPlan]:
        """The pods that stay, by name."""
        return {name: pod for name, pod in self.made.items() if name not in self.deleted}

    def without(self, *parts: str) -> Burst:
        """The same burst without these."""
        seed = "-".join([self.seed, *parts])
        return Burst(seed, tuple(_reduced(step, parts) for step in self.steps)) if parts else self


# Each kind of part that may be left out, with the fields of steps and of pods that replace it.
_OF_STEPS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gaps": {"is_gap": False},
    "extender": {"restart_extender": False},
    "kubelets": {"restart_kubelet": ""},
    "plugins": {"restart_plugin": ""},
}
_OF_PODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "lost": {"is_lost": False},
    "marks": {"is_marked": False},
    "forged": {"is_forged": False},
    "splits": {"split": ()},
    "urgent": {"is_urgent": False},
    "edits": {"is_edited": False},
    "ends": {"ends": ""},
    "inits": {"inits": ()},
    "strays": {"is_stray": False},
    "greedy": {"is_greedy": False},
}
PARTS: Final = (*_OF_STEPS, *_OF_PODS)


def make_burst(
    seed: str,
    nodes: Mapping[str, Mapping[int, int]],
    most_pods: int = MOST_PODS,
    *,
    is_real: bool = False,
    mib_per_unit: int = spec.MIB_PER_UNIT,
) -> Burst:
    """A burst on nodes with cards of these units: 2 to ``most_pods`` pods of 1 to 3 containers, of few amounts, in a few steps.

    ``is_real``: its kubelets and its API server are real ones, so there is nothing that only a stand-in can be made to do.
    """
    base, *left_out = seed.split("-")
    rng = random.Random(base)
    sizes = sorted({units for cards in nodes.values() for units in cards.values()})
    is_large = max(map(len, nodes.values())) > 8
    are_twins = rng.random() < (_TWINS_OF_LARGE if is_large else _TWINS)
    scale = spec.MIB_PER_UNIT // mib_per_unit
    known = [*(units for one in _AMOUNTS if (units := _odd(rng, one, scale)) <= sizes[-1]), *sizes]
    amounts = (
        [sizes[0] // 2 + rng.randint(1, 2)] if are_twins else rng.sample(known, min(len(known), rng.randint(1, 3)))
    )
    # Many small bursts and few large ones, and the reverse on nodes with many cards to fill.
    count = (max if is_large else min)(rng.randint(FEWEST_PODS, most_pods), rng.randint(FEWEST_PODS, most_pods))
    names = [f"p{number:02}" for number in range(count)]
    # Twins have one container, or two equal ones.
    parts = rng.choice((1, 1, 2))
    alike = (-(-amounts[0] // parts),) * parts
    pods = [PodPlan(name, alike) if are_twins else _pod(rng, name, amounts, sizes[-1]) for name in names]
    pods = [replace(pod, mib_per_unit=mib_per_unit) for pod in pods]
    if not is_real:
        pods = [_wild(rng, pod, count) for pod in pods]
        can_split = scale == 1 and sum(_SPLIT_UNITS) not in known and max(_SPLIT_UNITS) <= sizes[-1]
        if can_split and rng.random() < (_SPLIT_OF_TWINS if are_twins else _SPLIT):
            containers = rng.choice([(sum(_SPLIT_UNITS),), (0, sum(_SPLIT_UNITS)), (sum(_SPLIT_UNITS), 0)])
            pods[1] = replace(pods[1], containers=containers, inits=(), split=_SPLIT_UNITS)
        if rng.random() < _STRAY:
            pods[0] = replace(pods[0], containers=(0,), inits=(), split=(), is_stray=True)
        # On a card that it fills alone it would be out of memory.
        small = [pod for pod in pods if 0 < sum(pod.containers) < sizes[0] and not pod.split]
        if small and scale == 1 and rng.random() < _GREEDY:
            pods[pods.index(small[-1])] = replace(small[-1], inits=(), ends="", is_greedy=True)
        usual = [pod for pod in pods[1:] if not (pod.split or pod.is_greedy)]
        if usual and not are_twins and rng.random() < _TOO_LARGE:
            containers = rng.choice([(sizes[-1] + 1,), (sizes[-1], 1)])
            pods[pods.index(usual[-1])] = replace(usual[-1], containers=containers, inits=())
    steps: list[Step] = []
    there: list[PodPlan] = []
    while pods:
        count = rng.randint(1, max(len(pods), 1))
        created, pods = pods[:count], pods[count:]
        leaving = [pod for pod in there if rng.random() < 0.3 and not pod.split]
        is_gap = bool(leaving) and not is_real and rng.random() < _GAP
        if is_gap:
            created = [_in_place(*pair) for pair in zip(created, leaving, strict=False)] + created[len(leaving) :]
        there = [pod for pod in there if pod not in leaving] + created
        steps.append(
            Step(
                create=tuple(created),
                delete=tuple(pod.name for pod in leaving),
                restart_plugin=rng.choice([*nodes]) if rng.random() < _PLUGIN else "",
                restart_kubelet=rng.choice([*nodes]) if rng.random() < _KUBELET else "",
                restart_extender=not is_real and rng.random() < _EXTENDER,
                is_gap=is_gap,
                pause_seconds=rng.random() * _LONGEST_PAUSE_SECONDS,
            )
        )
    return Burst(base, tuple(steps)).without(*left_out)


def _odd(rng: random.Random, units: int, scale: int) -> int:
    """The same amount in small units, and a little less."""
    return units * scale - rng.randrange(scale)


def _pod(rng: random.Random, name: str, amounts: Sequence[int], largest: int) -> PodPlan:
    containers = [rng.choice(amounts) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    inits = [rng.choice(amounts) for _ in range(4) if rng.random() < _INIT]
    # A pod that is larger than each card would only wait: the containers beside its first are plain ones then.
    if sum(containers) + sum(inits) > largest:
        containers, inits = [containers[0], *(0 for _ in containers[1:])], [0 for _ in inits]
    for plain in (containers, inits):
        if rng.random() < _PLAIN:
            plain.insert(rng.randrange(len(plain) + 1), 0)
    return PodPlan(name, tuple(containers), tuple((units, rng.random() < 0.5) for units in inits))


def _wild(rng: random.Random, pod: PodPlan, count: int) -> PodPlan:
    """The pod with what only a stand-in can be made to do, and with what a test bed alone may have."""
    # There the names go backwards, so that they are those of other pods here.
    is_elsewhere = rng.random() < _ELSEWHERE
    return replace(
        pod,
        namespace=NAMESPACES[is_elsewhere],
        called=f"p{count - 1 - int(pod.name[1:]):02}" if is_elsewhere else "",
        ends=rng.choice(("Succeeded", "Failed")) if rng.random() < _ENDS else "",
        is_lost=rng.random() < _LOST,
        is_marked=rng.random() < _MARKED,
        is_forged=rng.random() < _FORGED,
        is_urgent=rng.random() < _URGENT,
        is_edited=rng.random() < _EDITED,
    )


def _in_place(pod: PodPlan, of: PodPlan) -> PodPlan:
    """The pod under the name of another one, which is gone."""
    return replace(pod, namespace=of.namespace, called=of.called or of.name)


def _reduced(step: Step, parts: Sequence[str]) -> Step:
    of_pods = {key: value for part in parts for key, value in _OF_PODS.get(part, {}).items()}
    of_step = {key: value for part in parts for key, value in _OF_STEPS.get(part, {}).items()}
    if step.is_gap and "gaps" in parts:
        # Outside a gap the other of its name may be there yet.
        step = replace(step, create=tuple(replace(pod, called=f"{pod.name}-alone") for pod in step.create))
    create = tuple(replace(pod, **of_pods) for pod in step.create if pod.name not in parts)
    return replace(step, create=create, delete=tuple(name for name in step.delete if name not in parts), **of_step)
