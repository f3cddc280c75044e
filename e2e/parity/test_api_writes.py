"""Creating and replacing: versions, preconditions, names, and what the server keeps for itself."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from e2e.parity.parity_objects import config_map, got, made, maps, patched, pod, pods
from e2e.parity.parity_requests import Cases, compare, delete, each, get, merge, post, put
from e2e.parity.sides import Both, Side

_OTHER_UID: Final = "00000000-0000-4000-8000-000000000000"
_MAP: Final = config_map("a", {"a": "1"})
_LEASE: Final = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
_IMMUTABLE: Final = {**_MAP, "immutable": True}
_SERVERS: Final[dict[str, Any]] = {
    "uid": _OTHER_UID,
    "creationTimestamp": "2020-01-01T00:00:00Z",
    "generation": 7,
    "deletionTimestamp": "2020-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 5,
    "selfLink": "/x",
}


def written(**metadata: Any) -> dict[str, Any]:
    """The ConfigMap as a writer sends it."""
    return config_map("a", {"a": "3"}, **metadata)


_CASES: Final[Cases] = {
    "a PUT of a stale version or another uid is 409, one of neither is unconditional": [
        post("configmaps", _MAP),
        merge("configmaps/a", {"data": {"a": "2"}}),
        put("configmaps/a", written(resourceVersion="${version:0}"), 409),
        put("configmaps/a", written(uid=_OTHER_UID), 409),
        put("configmaps/a", written(uid="${uid:0}")),
        put("configmaps/a", written(resourceVersion="0")),
        put("configmaps/a", written()),
        put("configmaps/a", written(resourceVersion="99999999999"), 409),
    ],
    "a PUT that changes nothing is no write": [
        post("configmaps", _MAP),
        put("configmaps/a", {"${object:0}": {}}, shows={"metadata.resourceVersion": "write 0"}),
    ],
    "a lease needs its version: two leaders cannot both renew": [
        post("leases", _LEASE),
        put("leases/l", _LEASE, 422),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "b"}}}),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "b"}}}, 409),
        put("leases/l", {"${object:0}": {"spec": {"holderIdentity": "c"}}}, 409),
    ],
    "a namespace in the body must be that of the URL, a namespace must be there": [
        post("configmaps", config_map("a", namespace="other"), 400),
        post("configmaps", config_map("a", namespace="${ns}")),
        post("/api/v1/namespaces/missing/configmaps", _MAP, 404),
        put("configmaps/a", config_map("b"), 400),
        put("configmaps/missing", config_map("missing"), 404),
        put("configmaps/a", {"data": {}}, 400),
    ],
    "a dry run answers as if it were done, and nothing is written": [
        post("configmaps", _MAP),
        post("configmaps", config_map("b"), dryRun="All"),
        put("configmaps/a", written(), dryRun="All"),
        merge("configmaps/a", {"data": {"a": "3"}}, dryRun="All"),
        delete("configmaps/a", dryRun="All"),
        post("configmaps", _MAP, 409, dryRun="All"),
        post("configmaps", config_map("b"), 422, dryRun="Some"),
        get("configmaps/a", shows={"metadata.resourceVersion": "write 0"}),
        get("configmaps/b", 404),
    ],
    "uid, times and generation are set again, a version is refused": [
        post("configmaps", config_map("a", **_SERVERS), shows={"metadata.deletionTimestamp": None}),
        post("configmaps", config_map("b", resourceVersion="7"), 500),
    ],
    "the data of an immutable ConfigMap cannot change, its labels can": [
        post("configmaps", _IMMUTABLE),
        merge("configmaps/a", {"data": {"a": "2"}}, 422),
        merge("configmaps/a", {"immutable": None}, 422),
        merge("configmaps/a", {"immutable": False}, 422),
        merge("configmaps/a", {"metadata": {"labels": {"a": "b"}}}),
    ],
}


@each(_CASES)
async def test_what_a_write_does(bare: Both, asks: list[Any]) -> None:
    """A write obeys version and uid as preconditions, and a refused one changes nothing."""
    await compare(bare, *asks)


@pytest.mark.promise("G1-01")
async def test_each_write_has_a_version_of_its_own(bare: Both) -> None:
    """Versions only grow, over all kinds, and a list is as new as the newest write."""

    async def observe(side: Side) -> Any:
        first = await made(side, maps(side), config_map("a"))
        second = await made(side, pods(side), pod("p"))
        third = await patched(side, maps(side, "a"), {"data": {"a": "1"}})
        listed = await got(side, maps(side))
        versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third.body, listed)]
        return versions == sorted(versions) and len(set(versions[:3])) == 3

    assert await bare.same(observe) is True


async def test_generated_names(bare: Both) -> None:
    """A generated name is at most 58 characters of the prefix and five more, and a given name wins."""

    async def observe(side: Side) -> Any:
        found = []
        prefixes = ("abc-", "x" * 70, "Wrong_", "")
        for metadata in (*({"generateName": prefix} for prefix in prefixes), {"generateName": "abc-", "name": "named"}):
            answer = await side.call("POST", maps(side), body={"metadata": metadata})
            name = answer.body["metadata"].get("name", "")
            found.append([answer.code, re.sub(r"[bcdfghjklmnpqrstvwxz2456789]{5}$", "<letters>", name), len(name)])
        return found

    seen = await bare.same(observe)
    assert seen[0][1:] == ["abc-<letters>", 9]
    assert seen[1][2] == 63


@pytest.mark.parametrize(
    "name",
    ["UPPER", "a_b", "a.b", "x" * 254, "a/b"],
)
async def test_names(bare: Both, name: str) -> None:
    """A name that is no DNS subdomain is refused, and so is a namespace's name with a dot."""
    namespace = post("/api/v1/namespaces", {"metadata": {"name": name}}, None, dryRun="All")
    await compare(bare, namespace, post("configmaps", config_map(name), None))


_METADATA: Final[list[dict[str, Any]]] = [
    {"labels": {"ok": "value", "example.com/x": ""}},
    {"labels": {"bad key": "v"}},
    {"labels": {"k": "bad value!"}},
    {"labels": {"k": "x" * 64}},
    {"annotations": {"bad key": "v"}},
    {"annotations": {"a": "x" * (256 * 1024)}},
]


@pytest.mark.parametrize("metadata", _METADATA)
async def test_metadata_is_checked(bare: Both, metadata: dict[str, Any]) -> None:
    """Wrong labels and annotations (256 KiB in all) are refused, and each wrong field is named."""
    await compare(bare, post("configmaps", config_map("a", **metadata), None))
