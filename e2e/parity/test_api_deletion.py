"""DELETE: grace, marks, preconditions, finalizers, collections."""

from __future__ import annotations

from typing import Any, Final

from e2e.parity.parity_objects import binding, config_map, got, made, maps, patched, pod, pods, short
from e2e.parity.parity_requests import Ask, Cases, compare, delete, each, events, get, merge, post
from e2e.parity.sides import Both, Side

_OTHER_UID: Final = "00000000-0000-4000-8000-000000000000"
_MAP: Final = config_map("a")
_HELD: Final = "example.com/x"


def bound(name: str = "p", **spec: Any) -> list[Ask]:
    """Requests that put a pod on a node."""
    return [post("pods", pod(name, spec)), post(f"pods/{name}/binding", binding(name))]


def graceful(name: str, seconds: int | None, left: int) -> Ask:
    """A DELETE with that grace; the grace that the pod then has."""
    body = {"gracePeriodSeconds": seconds} if seconds is not None else None
    return delete(f"pods/{name}", 200, body, shows={"metadata.deletionGracePeriodSeconds": left})


def phased(name: str, phase: str, code: int) -> list[Ask]:
    """A pod of that phase on a node is deleted; ``code`` answers a GET then."""
    status = merge(f"pods/{name}/status", {"status": {"phase": phase}})
    return [*bound(name), status, delete(f"pods/{name}"), get(f"pods/{name}", code)]


_CASES: Cases = {
    "a pod without a node goes at once: a watch sees it marked, then gone": [
        post("pods", pod("p")),
        delete("pods/p", shows={"kind": "Pod"}),
        events("pods", since=0, shows={"-1.type": "DELETED"}),
        get("pods/p", 404),
    ],
    "a bound pod is marked, and stays until its kubelet's DELETE with 0": [
        *bound(),
        delete("pods/p"),
        get("pods/p", shows={"metadata.deletionGracePeriodSeconds": 30}),
        delete("pods/p", 200, {"gracePeriodSeconds": 0}),
        events("pods", since=0, shows={"-1.type": "DELETED"}),
    ],
    "a second DELETE only shortens": [
        *bound(),
        *(graceful("p", wanted, left) for wanted, left in ((20, 20), (60, 20), (None, 20))),
        *(graceful("p", 10, 10) for _ in range(2)),
        get("pods/p"),
    ],
    "a pod that has ended goes at once": [
        *phased("p", "Succeeded", 404),
        *phased("q", "Failed", 404),
        *phased("r", "Running", 200),
    ],
    "another uid or version is 409": [
        post("configmaps", _MAP),
        merge("configmaps/a", {"data": {"a": "1"}}),
        delete("configmaps/a", 409, {"preconditions": {"uid": _OTHER_UID}}),
        delete("configmaps/a", 409, {"preconditions": {"resourceVersion": "${version:0}"}}),
        delete("configmaps/a", 200, {"preconditions": {"uid": "${uid:0}", "resourceVersion": "${version:1}"}}),
    ],
    "a Status with the uid for what is gone, 404 for what was not there": [
        post("configmaps", _MAP),
        delete("configmaps/a", shows={"details": {"name": "a", "kind": "configmaps", "uid": "<uid>"}}),
        delete("configmaps/a", 404),
    ],
    "a finalizer holds an object, which goes with its last": [
        post("configmaps", config_map("a", finalizers=[_HELD, "example.com/y"])),
        delete("configmaps/a"),
        delete("configmaps/a"),
        merge("configmaps/a", {"data": {"a": "1"}}),
        merge("configmaps/a", {"metadata": {"deletionTimestamp": None}}),
        merge("configmaps/a", {"metadata": {"finalizers": [_HELD]}}),
        # DELETED shows the last state that was, not the one of this write.
        merge("configmaps/a", {"metadata": {"finalizers": None, "labels": {"late": "label"}}}),
        events("configmaps", since=0, shows={"-1.type": "DELETED"}),
        get("configmaps/a", 404),
    ],
    "a collection: everything that is selected, as a list of what was there": [
        *(post("configmaps", config_map(name, labels={"app": app})) for name, app in (("a", "x"), ("b", "x"))),
        post("configmaps", config_map("c", labels={"app": "y"})),
        delete("configmaps", labelSelector="app=x", shows={"items.names": ["a", "b"]}),
        get("configmaps", shows={"items.names": ["c"]}),
    ],
    "a collection of pods: each as its own DELETE would do it": [
        *bound("held"),
        post("pods", pod("free")),
        delete("pods", 200, {"gracePeriodSeconds": 9}),
        get("pods", shows={"items.names": ["held"], "items.0.metadata.deletionGracePeriodSeconds": 9}),
    ],
    "grace in the query counts if there is no body": [
        *(one for number in range(3) for one in bound(f"p{number}")),
        delete("pods/p0", gracePeriodSeconds="3"),
        delete("pods/p1", 200, {"gracePeriodSeconds": 4}, gracePeriodSeconds="3"),
        delete("pods/p2", 400, gracePeriodSeconds="x"),
        delete("pods/p2", 200, {"gracePeriodSeconds": 0}, dryRun="All"),
        get("pods/p2", 404),
    ],
}
_CASES |= {
    f"a grace of {seconds} in the request wins over the pod's own": [
        *bound(terminationGracePeriodSeconds=5),
        delete("pods/p", 200, {} if seconds is None else {"gracePeriodSeconds": seconds}),
        get("pods/p", None),
    ]
    for seconds in (0, 1, 7, -1, None)
}


@each(_CASES)
async def test_what_a_delete_does(bare: Both, asks: list[Ask]) -> None:
    """A delete obeys the grace of the pod or the request, finalizers and preconditions."""
    await compare(bare, *asks)


async def test_a_namespace_that_ends(both: Both) -> None:
    """A namespace that ends refuses new objects, loses all its own, and is then gone."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("held", finalizers=[_HELD]))
        await made(side, pods(side), pod("p"))
        path = f"/api/v1/namespaces/{side.namespace}"
        answer = await side.call("DELETE", path)
        marked = [answer.code, answer.body["status"]["phase"], answer.body["spec"]]
        refused = short(await side.call("POST", maps(side), body=config_map("new")))
        held = await got(side, path)
        await patched(side, maps(side, "held"), {"metadata": {"finalizers": None}})
        async with side.watch("/api/v1/namespaces", fieldSelector=f"metadata.name={side.namespace}") as watch:
            while (await anext(watch))["type"] != "DELETED":
                pass
        return [marked, refused, held["status"]["phase"], (await side.call("GET", path)).code]

    marked, refused, phase, code = await both.same(observe)
    assert marked[:2] == [200, "Terminating"]
    assert (refused[0], phase, code) == (403, "Terminating", 404)
