"""Promises of ``top``: bookings beside use, and no number for what is not known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpushare.kubectl_gpushare.core.answer_text import top_names, top_text
from gpushare.kubectl_gpushare.core.memory_use import top, use_in
from gpushare.manifests import Node, Pod
from tests.gpushare.kubectl_gpushare.small_cluster import Object, node, pod
from tests.gpushare.kubectl_inspect.core.test_card_report import build

GIB = 1024**3
METRICS = """\
# HELP gpushare_pod_used_bytes Card memory that the pod's processes hold, as far as the driver reports it.
# TYPE gpushare_pod_used_bytes gauge
gpushare_pod_used_bytes{namespace="team",pod="f",uid="uid-f",card="0"} 1.313865728e+09
"""


def answer(*objects: Object, uses: dict[str, Any] | None = None, **conditions: str) -> dict[str, Any]:
    """The document about nodes and their pods."""
    nodes = [msgspec.convert(one, Node) for one in objects if "containers" not in one["spec"]]
    pods = [msgspec.convert(one, Pod) for one in objects if "containers" in one["spec"]]
    return top(build(nodes, pods)[0], uses or {}, conditions, ["x"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpushare_cards 1\n",
        "<html>",
        METRICS.replace('uid="uid-f",', ""),
        METRICS.replace('card="0"', 'card="x"'),
        METRICS.replace("1.313865728e+09", "Inf"),
    ],
)
def test_what_is_no_use_is_not_taken_for_none(text: str) -> None:
    """A plugin without --usage, and any other text."""
    assert use_in(text) is None


PODS = """\
NAMESPACE   NAME   NODE   CARD   BOOKED   USED     USED%   OVERUSE
team        f      a      0      1024Mi   1253Mi   122%    -
team        g      a      1      2048Mi   -        -       -
team        h      b      0      3072Mi   -        -       -
"""
NODES = """\
NODE   BOOKED   USED     USED%   TOTAL     PODS   HEALTHY
a      3072Mi   1253Mi   40%     28672Mi   2      False
b      3072Mi   -        -       28672Mi   1      -
"""


def test_use_beside_bookings() -> None:
    """A pod that its plugin does not report, and a node without a plugin that does, have a dash."""
    objects = (node("a"), node("b"), pod("f", 1, "a", 0), pod("g", 2, "a", 1), pod("h", 3, "b", 0))
    found = answer(*objects, uses={"a": use_in(METRICS)}, a="False")

    assert top_text(found, "pods") == PODS
    assert top_text(found, "nodes") == NODES
    assert top_text(found, "nodes", headers=False).startswith("a ")
    assert [one["used"] for one in found["pods"]] == [1253 * 1024**2, None, None]
    assert [one["booked"] for one in found["nodes"]] == [3 * GIB, 3 * GIB]
    assert top_names(found, "pods") == "pod/f\npod/g\npod/h\n"
    assert top_names(found, "nodes") == "node/a\nnode/b\n"
    assert (found["apiVersion"], found["kind"]) == ("kubectl.gpushare.aliyun.com/v1", "MemoryUse")
    assert top_text(found, "pods", headers=False).startswith("team ")
    assert found["hidden"] == ["x"]


@pytest.mark.parametrize(
    ("limits", "cell", "limit"),
    [
        ('[["c",0,"enforced",1024],["first",0,"none",0]]', "1024Mi", GIB),
        ('[["c",0,"loose",2048]]', "loose", 2 * GIB),
        ('[["c",0,"none",0]]', "none", 0),
    ],
)
def test_limits_stand_between_booked_and_used(limits: str, cell: str, limit: int) -> None:
    """If a plugin publishes some; an init container that ends does not count."""
    limited, other = pod("f", 1, "a", 0), pod("g", 2, "a", 1)
    limited["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_LIMITS"] = limits
    limited["spec"]["initContainers"] = [{"name": "first"}]
    found = answer(node("a"), limited, other)

    head, first, second = (line.split() for line in top_text(found, "pods").splitlines())
    assert head[4:7] == ["BOOKED", "LIMIT", "USED"]
    assert (first[4:7], second[5]) == (["1024Mi", cell, "-"], "-")
    assert [one["limit"] for one in found["pods"]] == [limit, None]


@pytest.mark.parametrize(
    ("mib", "cells"),
    [(1253, "1253Mi   122%    229Mi"), (1000, "1000Mi   97%     0Mi"), (None, "1300Mi   126%    276Mi")],
)
def test_reported_overuse_is_marked(mib: int | None, cells: str) -> None:
    """With the plugin's present figure; with that on the node if the plugin cannot be asked."""
    one = node("a")
    one["metadata"]["annotations"]["aliyun.com/gpushare-overuse"] = '[["uid-f",0,1024,1300],["uid-gone",0,1,2]]'
    uses = {"a": {("uid-f", 0): mib * 1024**2}} if mib else {}
    found = answer(one, pod("f", 1, "a", 0), uses=uses)

    assert top_text(found, "pods").splitlines()[1].endswith(cells)
    assert found["pods"][0]["overuse"] == max((mib or 1300) - 1024, 0) * 1024**2


def test_a_unit_that_is_not_known_has_no_bytes() -> None:
    """The amount is not guessed."""
    odd = node("a")
    annotations = odd["metadata"]["annotations"]
    annotations["aliyun.com/gpushare-cards"] = annotations["aliyun.com/gpushare-cards"].replace('"GiB"', '"parsec"')
    annotations["aliyun.com/gpushare-overuse"] = '[["uid-f",0,1024,1300]]'

    (found,) = answer(odd, pod("f", 1, "a", 0))["pods"]
    assert (found["booked"], found["used"], found["overuse"]) == (None, 1300 * 1024**2, None)
