"""Questions and the reading of their answers."""

from __future__ import annotations

import json
import random

import pytest

from load.bench.bench_questions import filter_bodies, head, wrong_with
from load.bench.binder import request

NAMES = [f"node-{number:05}" for number in range(20)]
NODES = {"items": [{"metadata": {"name": name}} for name in NAMES[:10]]}


def answer(fitting, failed=(), error="", **more) -> bytes:
    return json.dumps(
        {"NodeNames": list(fitting), "FailedNodes": dict.fromkeys(failed, "full"), "Error": error, **more}
    ).encode()


def test_each_question_has_different_names_in_its_own_order() -> None:
    """No answer can be remembered by the bytes of the question."""
    bodies = [json.loads(body) for body in filter_bodies(NAMES, 12, "half", 0, random.Random(1))]
    assert all(len(set(body["NodeNames"])) == 12 for body in bodies)
    assert len({tuple(body["NodeNames"]) for body in bodies}) == len(bodies) == 50
    assert {body["Pod"]["spec"]["containers"][0]["resources"]["limits"]["aliyun.com/gpu-mem"] for body in bodies} == {
        "4"
    }


def test_the_head_says_how_long_the_body_is() -> None:
    """A server must not have to guess."""
    assert b"\r\nContent-Length: 42\r\n" in head("/x", 42)
    assert head("/x", 42).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (answer(NAMES[:10], NAMES[10:]), ""),
        (answer(NAMES), "fit where half should"),
        (answer([], NAMES), "fit where half should"),
        (answer(NAMES[:10]), "10 and 0 nodes of 20"),
        (answer([], error="not ready"), "not ready"),
        (b"<html>", "no ExtenderFilterResult"),
        (answer([], NAMES[10:], NodeNames=None, Nodes=NODES), ""),
        (answer(NAMES[:10], (), FailedAndUnresolvableNodes=dict.fromkeys(NAMES[10:], "x")), ""),
    ],
)
def test_an_answer_is_measured_only_where_it_makes_sense(body, wrong) -> None:
    """An extender that answers nonsense is distinguished from one that answers full nodes as the original does."""
    found = wrong_with(body, 20, "half")
    assert wrong in found
    assert bool(wrong) == bool(found)


@pytest.mark.parametrize(
    ("kind", "path", "names_node"),
    [
        ("extender", b"/gpushare-scheduler/bind", True),
        ("api_server", b"/pods/p/binding", True),
        ("nothing", b"/12 ", True),
    ],
)
def test_a_bind_has_the_form_of_each_kind_of_server(kind, path, names_node) -> None:
    """Extenders get ExtenderBindingArgs, the API server a Binding; the server that does nothing gets as much to read."""
    made = request(kind, "p", "node-00007")
    assert path in made.splitlines()[0]
    assert (b"node-00007" in made) == names_node
