"""The questions of kube-scheduler to an extender, as bytes, and how it reads the answers. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from load.simulated.objects import pod_object
from load.simulated.world import NAMESPACE, Pod


class WrongAnswerError(Exception):
    """An answer that kube-scheduler cannot use; the text is the reason."""


class HopelessAnswerError(WrongAnswerError):
    """An answer that stays wrong if it is asked again: of another form, or about nodes that were not in the question."""


class Window:
    """The nodes of one scheduler: it looks at ``size`` of them for each pod, and goes on behind the last."""

    def __init__(self, names: Sequence[str], size: int, start: int = 0) -> None:
        self._names = names
        self._size = min(size, len(names))
        self._next = start % len(names)

    def turn(self) -> list[str]:
        """The next names."""
        begin, end = self._next, self._next + self._size
        self._next = end % len(self._names)
        return [*self._names[begin:end], *self._names[: max(end - len(self._names), 0)]]


def pod_in_question(name: str, units: int) -> bytes:
    """The pod as it is in every question about it."""
    return pod_object(Pod(name, units), 1)


def arguments(pod: bytes, names: Sequence[str]) -> bytes:
    """``ExtenderArgs`` with names, for filter and prioritize."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}\n' % (pod, json.dumps(names, separators=(",", ":")).encode())


def binding_arguments(name: str, node: str, namespace: str = NAMESPACE, uid: str = "") -> bytes:
    """``ExtenderBindingArgs``; without a uid of a pod as the simulated API server makes them."""
    order = {"PodName": name, "PodNamespace": namespace, "PodUID": uid or f"uid-{name}", "Node": node}
    return json.dumps(order, separators=(",", ":")).encode()


def fitting(answer: bytes, names: Sequence[str]) -> list[str]:
    """The nodes that passed a filter. Raises WrongAnswerError."""
    try:
        read = json.loads(answer)
        nodes = [item["metadata"]["name"] for item in (read.get("Nodes") or {}).get("items") or ()]
        passed = list(read.get("NodeNames") or nodes)
        refused = len(read.get("FailedNodes") or ()) + len(read.get("FailedAndUnresolvableNodes") or ())
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HopelessAnswerError(f"no ExtenderFilterResult: {error!r}") from error
    if read.get("Error"):
        raise WrongAnswerError(str(read["Error"]))
    if len(set(passed)) != len(passed) or not set(passed) <= set(names):
        raise HopelessAnswerError("names nodes twice, or nodes that it was not asked about")
    if len(passed) + refused != len(names):
        raise WrongAnswerError(f"names {len(passed)} and {refused} nodes of {len(names)}")
    return passed


def highest(answer: bytes, names: Sequence[str]) -> list[str]:
    """The nodes with the highest score, in the order of the names. Raises WrongAnswerError."""
    try:
        scores = {one["Host"]: int(one["Score"]) for one in json.loads(answer)}
    except (ValueError, TypeError, KeyError) as error:
        raise HopelessAnswerError(f"no HostPriorityList: {error!r}") from error
    best_score = max(scores.get(name, 0) for name in names)
    return [name for name in names if scores.get(name, 0) == best_score]


def best(answer: bytes, names: Sequence[str], rng: random.Random) -> str:
    """One of the nodes with the highest score. Raises WrongAnswerError."""
    return rng.choice(highest(answer, names))


def refusal(answer: bytes) -> str:
    """Why a bind was refused, "" if it was not. Raises WrongAnswerError."""
    try:
        return str(json.loads(answer).get("Error") or "")
    except (ValueError, AttributeError) as error:
        raise WrongAnswerError(f"no ExtenderBindingResult: {error!r}") from error
