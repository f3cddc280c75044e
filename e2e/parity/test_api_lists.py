"""Lists: versions, pages, and the selectors of labels and fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from e2e.parity.parity_objects import MERGE, config_map, got, made, maps, node_of, patched, place, pod, pods, short
from e2e.parity.sides import Both, Side


def names(body: Any) -> list[str]:
    """The names of a list's items, in its order."""
    return [each["metadata"]["name"] for each in body["items"]]


async def some_maps(side: Side, count: int) -> list[int]:
    """So many ConfigMaps; the versions of their creation."""
    found = [await made(side, maps(side), config_map(f"m{number}", labels={"app": "x"})) for number in range(count)]
    return [int(each["metadata"]["resourceVersion"]) for each in found]


@pytest.mark.promise("G1-03")
async def test_a_list_of_a_version(bare: Both) -> None:
    """D1: Exact shows the past, NotOlderThan and none the present, 0 whatever there is."""

    async def observe(side: Side) -> Any:
        versions = await some_maps(side, 3)
        found = []
        for params in (
            {"resourceVersion": str(versions[1]), "resourceVersionMatch": "Exact"},
            {"resourceVersion": str(versions[1]), "resourceVersionMatch": "NotOlderThan"},
            {"resourceVersion": str(versions[1])},
            {},
            {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"},
        ):
            body = (await side.call("GET", maps(side), params=params)).body
            version = int(body["metadata"]["resourceVersion"])
            found.append([names(body), version == versions[1], version >= versions[2]])
        return found

    seen = await bare.same(observe)
    assert seen[0] == [["m0", "m1"], True, False]
    assert [each[0] for each in seen[1:]] == [["m0", "m1", "m2"]] * 4


@pytest.mark.promise("G1-03")
async def test_pages(bare: Both) -> None:
    """D1: limit and continue show every object once, all pages of one version, with what remains."""

    async def observe(side: Side) -> Any:
        await some_maps(side, 5)
        found, token, versions = [], "", set()
        while True:
            params = {"limit": "2", **({"continue": token} if token else {})}
            body = (await side.call("GET", maps(side), params=params)).body
            metadata = body["metadata"]
            versions.add(metadata["resourceVersion"])
            found.append([names(body), metadata.get("remainingItemCount"), "continue" in metadata])
            token = metadata.get("continue", "")
            if not token:
                return [found, len(versions)]
            await made(side, maps(side), config_map(f"z{len(found)}"))

    pages, versions = await bare.same(observe)
    assert pages == [[["m0", "m1"], 3, True], [["m2", "m3"], 1, True], [["m4"], None, False]]
    assert versions == 1


@pytest.mark.promise("G1-03")
async def test_a_page_that_is_too_old(bare: Both) -> None:
    """D1: 410 with a token for the rest, which is of another version."""

    async def observe(side: Side) -> Any:
        path = place(side, "events")
        for number in range(4):
            about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
            await made(side, path, {"metadata": {"name": f"e{number}"}, "involvedObject": about})
        page = await side.call("GET", path, params={"limit": "2"})
        await made(side, maps(side), config_map("later"))
        await side.compact()
        params = {"limit": "1", "continue": page.body["metadata"]["continue"]}
        gone = await side.call("GET", path, params=params)
        rest = await side.call("GET", path, params={"continue": gone.body["metadata"]["continue"]})
        return [short(gone), rest.code, names(rest.body)]

    gone, code, found = await bare.same(observe)
    assert (gone[0], gone[1]["reason"], code, found) == (410, "Expired", 200, ["e2", "e3"])


_LABELLED = {
    "a": {"app": "x", "tier": "1"},
    "b": {"app": "y", "tier": "2"},
    "c": {"app": "x"},
    "d": {},
    "e": {"app": "", "example.com/gpu": "true"},
}


@pytest.mark.parametrize(
    "selector",
    [
        "app=x",
        "app!=x",
        "app in (x,y)",
        "app notin (x, y)",
        "app",
        "!app",
        "app,!tier",
        "app=x,tier=1",
        "app=",
        "app in ()",
        "app in (,x)",
        "tier>1",
        "tier<2",
        "tier>x",
        "app in (x",
        "=x",
        "app=x,",
        "app=x=y",
        "app=-x",
        "app in (x y)",
        "notin in (a)",
        "app=" + "x" * 64,
        "",
        " ",
    ],
)
async def test_label_selectors(bare: Both, selector: str) -> None:
    """D1: equality, sets, existence; 400 for what cannot be read."""

    async def observe(side: Side) -> Any:
        for name, labels in _LABELLED.items():
            await made(side, maps(side), config_map(name, labels=labels))
        answer = await side.call("GET", maps(side), params={"labelSelector": selector})
        if answer.code == 200:
            return [200, names(answer.body)]
        return [answer.code, answer.body["reason"]]

    await bare.same(observe)


_PODS: dict[str, Any] = {
    "a": {"nodeName": "n1"},
    "b": {"restartPolicy": "Never"},
    "c": {"schedulerName": "other"},
    "d": {"hostNetwork": True, "nodeName": "n2"},
}


async def make_pods(side: Side) -> None:
    """Pods that differ in what can be selected."""
    for name, spec in _PODS.items():
        await made(side, pods(side), pod(name, spec))
    await patched(side, pods(side, "b", "status"), {"status": {"phase": "Succeeded"}})
    await patched(side, pods(side, "a", "status"), {"status": {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}})
    await patched(side, pods(side, "c", "status"), {"status": {"nominatedNodeName": "n9"}})


@pytest.mark.promise("API-012", "G1-12")
async def test_field_selectors_of_pods(bare: Both) -> None:
    """Each field that pods can be selected by, with each operator."""

    async def observe(side: Side) -> Any:
        await make_pods(side)
        found = {}
        for selector in (
            "metadata.name=a",
            f"metadata.namespace={side.namespace}",
            "metadata.namespace=other",
            "spec.nodeName=n1",
            "spec.nodeName==n1",
            "spec.nodeName!=n1",
            "spec.nodeName=",
            "spec.nodeName!=",
            "spec.restartPolicy=Never",
            "spec.schedulerName=other",
            "spec.serviceAccountName=default",
            "spec.hostNetwork=true",
            "spec.hostNetwork=false",
            "status.phase=Pending",
            "status.phase!=Pending",
            "status.phase!=Succeeded,status.phase!=Failed",
            "status.podIP=10.0.0.7",
            "status.podIP=",
            "status.nominatedNodeName=n9",
            "spec.nodeName=n1,status.phase=Pending",
            "metadata.name=a,metadata.name=b",
            "",
        ):
            answer = await side.call("GET", pods(side), params={"fieldSelector": selector})
            found[selector.replace(side.namespace, "<mine>")] = [answer.code, names(answer.body)]
        return found

    seen = await bare.same(observe)
    assert seen["spec.nodeName!=n1"] == [200, ["b", "c", "d"]]
    assert seen["status.phase!=Succeeded,status.phase!=Failed"] == [200, ["a", "c", "d"]]


@pytest.mark.promise("API-012", "G1-12")
@pytest.mark.parametrize(
    "selector",
    [
        "spec.image=x",
        "metadata.labels=x",
        "status.hostIP=x",
        "spec.nodeName",
        "spec.nodeName>n1",
        "=x",
        "metadata.uid=x",
        ",",
        "a=b=c",
    ],
)
async def test_field_selectors_that_are_none(bare: Both, selector: str) -> None:
    """400 for a field that cannot be selected by, and for what cannot be read."""

    async def observe(side: Side) -> Any:
        return [
            short(await side.call("GET", path, params={"fieldSelector": selector})) for path in (pods(side), maps(side))
        ]

    await bare.same(observe)


@pytest.mark.promise("API-012")
async def test_field_selectors_of_other_kinds(bare: Both) -> None:
    """Nodes by unschedulable, namespaces by phase, events by what they are about, ConfigMaps by name."""

    async def observe(side: Side) -> Any:
        name = node_of(side)
        await made(side, "/api/v1/nodes", {"metadata": {"name": name}, "spec": {"unschedulable": True}})
        await made(side, maps(side), config_map("m"))
        about = {"kind": "Pod", "namespace": side.namespace, "name": "p", "uid": "u", "apiVersion": "v1"}
        event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "R", "type": "Normal"}
        await made(side, place(side, "events"), {**event, "source": {"component": "c"}})
        found = []
        for path, selector in (
            ("/api/v1/nodes", f"spec.unschedulable=true,metadata.name={name}"),
            ("/api/v1/nodes", f"spec.unschedulable=false,metadata.name={name}"),
            ("/api/v1/namespaces", f"status.phase=Active,metadata.name={side.namespace}"),
            (maps(side), "metadata.name=m"),
            (maps(side), "metadata.name!=m"),
            (place(side, "events"), "involvedObject.name=p,involvedObject.kind=Pod,type=Normal"),
            (place(side, "events"), "involvedObject.uid=u,reason=R,source=c"),
            (place(side, "events"), "reason=other"),
            (place(side, "events", root="/apis/events.k8s.io/v1"), "regarding.name=p"),
            (place(side, "events"), "reportingComponent="),
        ):
            answer = await side.call("GET", path, params={"fieldSelector": selector})
            found.append([answer.code, [each.replace(side.namespace, "<mine>") for each in names(answer.body)]])
        await side.call("DELETE", f"/api/v1/nodes/{name}")
        return found

    await bare.same(observe)


async def test_a_list_is_whole_and_sorted(bare: Both) -> None:
    """D1: kind, version and items, by name; the items without kind and apiVersion."""

    async def observe(side: Side) -> Any:
        for name in ("b", "a", "c"):
            await made(side, maps(side), config_map(name))
        return short(await side.call("GET", maps(side)))

    code, body = await bare.same(observe)
    assert (code, body["kind"], names(body)) == (200, "ConfigMapList", ["a", "b", "c"])
    assert "kind" not in body["items"][0]


async def test_an_empty_list(bare: Both) -> None:
    """D1: of a namespace with nothing in it, and of one that is not there."""

    async def observe(side: Side) -> Any:
        return [
            short(await side.call("GET", maps(side))),
            short(await side.call("GET", "/api/v1/namespaces/missing/pods")),
        ]

    for code, body in await bare.same(observe):
        assert (code, body["items"]) == (200, [])


async def test_pages_of_a_selection(bare: Both) -> None:
    """D1: the remaining number is not known if a selector has to look at each object."""

    async def observe(side: Side) -> Any:
        await some_maps(side, 3)
        params = {"limit": "1", "labelSelector": "app=x"}
        body = (await side.call("GET", maps(side), params=params)).body
        return [names(body), sorted(body["metadata"])]

    assert await bare.same(observe) == [["m0"], ["continue", "resourceVersion"]]


@pytest.mark.promise("G1-12")
async def test_selectors_together(bare: Both) -> None:
    """D1: labels and fields are both asked, in lists of all namespaces too."""

    async def observe(side: Side) -> Any:
        for name in ("a", "b"):
            await made(side, pods(side), pod(name, labels={"app": name, "case": side.namespace}))
        params = {"fieldSelector": "metadata.name!=b", "labelSelector": f"case={side.namespace}"}
        everywhere = await side.call("GET", "/api/v1/pods", params=params)
        here = await side.call("GET", pods(side), params=params)
        return [names(everywhere.body), names(here.body)]

    assert await bare.same(observe) == [["a"], ["a"]]


async def test_lists_at_once(bare: Both) -> None:
    """D1: a list after a write shows it to every client."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("m"))
        counts = []
        for number in range(5):
            await patched(side, maps(side, "m"), {"data": {"n": str(number)}}, MERGE)
            lists = await asyncio.gather(*(got(side, maps(side)) for _ in range(3)))
            counts.append({each["items"][0]["data"]["n"] for each in lists} == {str(number)})
        return counts

    assert await bare.same(observe) == [True] * 5
