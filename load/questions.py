"""The questions of kube-scheduler to an extender, as bytes, its files for TLS, and how it reads the answers.

kube-scheduler decodes answers with Go's ``encoding/json``: the names of members match in any case, ``null`` is an empty value, and
whatever follows the first value is not read.
"""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from load.load_commands import LoadError
from load.simulated.simulated_objects import NAMESPACE, Pod, pod_object

PREFIX: Final = "/gpushare-scheduler"
# ``MaxExtenderPriority`` of k8s.io/kube-scheduler/extender/v1.
_HIGHEST_SCORE: Final = 10


class WrongAnswerError(LoadError):
    """An answer that kube-scheduler cannot use; the text is the reason."""


class HopelessAnswerError(WrongAnswerError):
    """An answer that stays wrong if it is asked again: of another form, or about nodes that were not in the question."""


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of what a client shows (PEM), and of the authority that it believes."""

    authority: str
    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """For connections to 127.0.0.1."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


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


def binding_arguments(name: str, node: str) -> bytes:
    """``ExtenderBindingArgs``."""
    order = {"PodName": name, "PodNamespace": NAMESPACE, "PodUID": f"uid-{name}", "Node": node}
    return json.dumps(order, separators=(",", ":")).encode()


def fitting(answer: bytes, names: Sequence[str]) -> list[str]:
    """The nodes that passed a filter, in the order of the answer.

    Raises HopelessAnswerError for another form, WrongAnswerError for an error of the extender or another sum of nodes.
    """
    passed, failed = _passed_and_failed(answer)
    asked = set(names)
    if len(set(passed)) != len(passed) or not asked.issuperset(passed):
        raise HopelessAnswerError("names nodes twice, or nodes that it was not asked about")
    if not failed <= asked:
        raise WrongAnswerError("FailedNodes names nodes that it was not asked about")
    if not failed.isdisjoint(passed):
        raise WrongAnswerError("names a node as fitting and as failed")
    if len(passed) + len(failed) != len(names):
        raise WrongAnswerError(f"names {len(passed)} and {len(failed)} nodes of {len(names)}")
    return passed


def _passed_and_failed(answer: bytes) -> tuple[list[str], frozenset[str]]:
    try:
        read = _members(answer)
        if read.get("error"):
            raise WrongAnswerError(str(read["error"]))
        passed = read.get("nodenames")
        if passed is None:
            # The original answers a question of names with full nodes.
            passed = [item["metadata"]["name"] for item in (read.get("nodes") or {}).get("items") or ()]
        failed = frozenset({**(read.get("failednodes") or {}), **(read.get("failedandunresolvablenodes") or {})})
        if not isinstance(passed, list) or not all(isinstance(name, str) for name in passed):
            raise TypeError("NodeNames is no list of strings")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HopelessAnswerError(f"no ExtenderFilterResult: {error!r}") from error
    return passed, failed


def highest(answer: bytes, names: Sequence[str]) -> list[str]:
    """The nodes with the highest score, in the order of the names; one that is not named has 0. Raises WrongAnswerError."""
    try:
        read = _decoded(answer)
        scored = [(one["host"], one["score"]) for one in map(_lowered, () if read is None else read)]
        scores = dict(scored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HopelessAnswerError(f"no HostPriorityList: {error!r}") from error
    if any(type(score) is not int for score in scores.values()):
        raise HopelessAnswerError("no HostPriorityList: a score is no integer")
    if len(scores) != len(scored) or not scores.keys() <= set(names):
        raise HopelessAnswerError("scores nodes twice, or nodes that it was not asked about")
    if scores and not 0 <= min(scores.values()) <= max(scores.values()) <= _HIGHEST_SCORE:
        raise WrongAnswerError(f"a score is not within 0 and {_HIGHEST_SCORE}")
    best_score = max(scores.get(name, 0) for name in names)
    return [name for name in names if scores.get(name, 0) == best_score]


def best(answer: bytes, names: Sequence[str], rng: random.Random) -> str:
    """One of the nodes with the highest score. Raises WrongAnswerError."""
    return rng.choice(highest(answer, names))


def refusal(answer: bytes) -> str:
    """Why a bind was refused, "" if it was not. Raises WrongAnswerError."""
    try:
        return str(_members(answer).get("error") or "")
    except (ValueError, AttributeError) as error:
        raise WrongAnswerError(f"no ExtenderBindingResult: {error!r}") from error


def _members(answer: bytes) -> dict[str, Any]:
    """The members of an object by name in lower case; none for ``null``. Raises ValueError, AttributeError."""
    read = _decoded(answer)
    return {} if read is None else _lowered(read)


def _lowered(value: Any) -> dict[str, Any]:
    return {key.lower(): member for key, member in value.items()}


def _decoded(answer: bytes) -> Any:
    """The first JSON value, as Go's decoder reads it: strictly, but for what follows it. Raises ValueError."""
    return _DECODER.raw_decode(answer.decode(errors="replace").lstrip(" \t\r\n"))[0]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
