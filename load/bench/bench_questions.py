"""The questions, as the bytes that go over the wire: made before any clock runs. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from load.bench.bench_figures import ROUND
from load.questions import WrongAnswerError, arguments, filter_result, pod_in_question
from load.simulated.simulated_world import UNITS_OF, asker_name

PREFIX = "/gpushare-scheduler"


def head(path: str, length: int) -> bytes:
    """The first lines of a POST, as Go's client writes them."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {length}\r\n"
        "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    ).encode()


def filter_bodies(names: Sequence[str], count: int, fit: str, first: int, rng: random.Random) -> list[bytes]:
    """One round of ``ExtenderArgs`` with ``count`` of these names in a new order each, about the waiting pods from ``first`` on."""
    pods = (pod_in_question(asker_name(fit, number), UNITS_OF[fit]) for number in range(first, first + ROUND))
    return [arguments(pod, rng.sample(names, count)) for pod in pods]


def binding_body(name: str, node: str) -> bytes:
    """A Binding, as an extender sends it to the API server, with a card that is as good as any."""
    metadata = {"name": name, "uid": f"uid-{name}", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}).encode()


def wrong_with(answer: bytes, count: int, fit: str) -> str:
    """The fault of an answer to a filter question of this many names, "" if it has none."""
    try:
        passed, failed = filter_result(answer)
    except WrongAnswerError as error:
        return f"{error}: {answer[:200]!r}"
    fitting = len(passed)
    if fitting + len(failed) != count:
        return f"it names {fitting} and {len(failed)} nodes of {count}"
    lowest, highest = {"all": (1.0, 1.0), "half": (0.2, 0.8), "none": (0.0, 0.0)}[fit]
    if not lowest <= fitting / count <= highest:
        return f"{fitting} of {count} nodes fit where {fit} should"
    return ""
