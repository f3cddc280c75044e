"""Lists: versions, pages, and the selectors of labels and fields."""

from __future__ import annotations

from typing import Any, Final

import pytest

from e2e.parity.parity_objects import config_map, made, maps, place, pod, short
from e2e.parity.parity_requests import Ask, compare, get, merge, post
from e2e.parity.sides import Both, Side


def names(body: Any) -> list[str]:
    """The names of a list's items, in its order."""
    return [each["metadata"]["name"] for each in body["items"]]


def shown(path: str, *expected: str, **params: Any) -> Ask:
    """A list of just these names."""
    return get(path, shows={"items.names": list(expected)}, **params)


_MAPS: Final = [post("configmaps", config_map(f"m{number}", labels={"app": "x"})) for number in range(5)]


@pytest.mark.promise("G1-03")
async def test_pages(bare: Both) -> None:
    """Pages show each object once, all of one version, with the number that remains."""
    *_, first, _, second, _, third = await compare(
        bare,
        *_MAPS,
        shown("configmaps", "m0", "m1", limit="2"),
        post("configmaps", config_map("z1")),
        shown("configmaps", "m2", "m3", limit="2", **{"continue": "${continue:5}"}),
        post("configmaps", config_map("z2")),
        shown("configmaps", "m4", limit="2", **{"continue": "${continue:7}"}),
    )
    remaining = [page["metadata"].get("remainingItemCount") for page in (first, second, third)]
    assert (remaining, "continue" in third["metadata"]) == ([3, 1, None], False)


@pytest.mark.promise("G1-03")
async def test_a_page_that_is_too_old(bare: Both) -> None:
    """A page of a compacted version is 410 with a token for the rest, which is of another version."""

    async def observe(side: Side) -> Any:
        path = place(side, "events")
        for number in range(4):
            about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
            await made(side, path, {"metadata": {"name": f"e{number}"}, "involvedObject": about})
        page = await side.call("GET", path, params={"limit": "2"})
        await made(side, maps(side), config_map("later"))
        await side.cluster.compact()
        params = {"limit": "1", "continue": page.body["metadata"]["continue"]}
        gone = await side.call("GET", path, params=params)
        rest = await side.call("GET", path, params={"continue": gone.body["metadata"]["continue"]})
        return [short(gone), rest.code, names(rest.body)]

    gone, code, found = await bare.same(observe)
    assert (gone[0], gone[1]["reason"], code, found) == (410, "Expired", 200, ["e2", "e3"])


_LABELLED: Final = {
    "a": {"app": "x", "tier": "1"},
    "b": {"app": "y", "tier": "2"},
    "c": {"app": "x"},
    "d": {},
    "e": {"app": "", "example.com/gpu": "true"},
}
_LABEL_SELECTORS: Final = (
    *("app=x", "app!=x", "app in (x,y)", "app notin (x, y)", "app", "!app", "app,!tier", "app=x,tier=1", "app="),
    *("app in (x", "=x", "app=x=y", "app=-x", ""),
)


async def test_label_selectors(bare: Both) -> None:
    """Label selectors match by equality, sets and existence, and an unreadable one is 400."""
    made = [post("configmaps", config_map(name, labels=labels)) for name, labels in _LABELLED.items()]
    asks = [get("configmaps", None, labelSelector=selector) for selector in _LABEL_SELECTORS]
    await compare(bare, *made, *asks)


_PODS: Final[list[Ask]] = [
    post("pods", pod("a", {"nodeName": "n1"})),
    post("pods", pod("b")),
    post("pods", pod("c")),
    post("pods", pod("d", {"nodeName": "n2"})),
    merge("pods/b/status", {"status": {"phase": "Succeeded"}}),
]
_POD_SELECTORS: Final = {
    "metadata.name=a": "a",
    "spec.nodeName=n1": "a",
    "spec.nodeName!=n1": "bcd",
    "spec.nodeName=": "bc",
    "spec.nodeName!=": "ad",
    "status.phase=Pending": "acd",
    "status.phase!=Pending": "b",
    "status.phase!=Succeeded,status.phase!=Failed": "acd",
    "spec.nodeName=n1,status.phase=Pending": "a",
    "": "abcd",
}


@pytest.mark.promise("API-012", "G1-12")
async def test_field_selectors_of_pods(bare: Both) -> None:
    """Each field that pods can be selected by, with each operator."""
    asks = [shown("pods", *expected, fieldSelector=selector) for selector, expected in _POD_SELECTORS.items()]
    await compare(bare, *_PODS, *asks)
