"""Creating and replacing: versions, preconditions, names, and what the server keeps for itself."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from e2e.parity.parity_objects import (
    MERGE,
    config_map,
    got,
    leases,
    made,
    maps,
    node_of,
    patched,
    pod,
    pods,
    short,
)
from e2e.parity.sides import Both, Side

_OTHER_UID = "00000000-0000-4000-8000-000000000000"
_TYPES = [MERGE, "application/strategic-merge-patch+json"]


def version_of(item: dict[str, Any]) -> int:
    """The version as a number: only its order counts."""
    return int(item["metadata"]["resourceVersion"])


async def test_each_write_has_a_version_of_its_own(bare: Both) -> None:
    """D1: versions only grow, over all kinds, and a list is as new as the newest write."""

    async def observe(side: Side) -> Any:
        first = await made(side, maps(side), config_map("a"))
        second = await made(side, pods(side), pod("p"))
        third = await patched(side, maps(side, "a"), {"data": {"a": "1"}})
        listed = await got(side, maps(side))
        versions = [version_of(each) for each in (first, second, third.body, listed)]
        return versions == sorted(versions) and len(set(versions[:3])) == 3

    assert await bare.same(observe) is True


async def test_preconditions_of_a_put(bare: Both) -> None:
    """D3: a stale version is 409, another uid is 409, neither is unconditional."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a", {"a": "1"}))
        await patched(side, maps(side, "a"), {"data": {"a": "2"}})
        found = []
        for metadata in (
            {"resourceVersion": created["metadata"]["resourceVersion"]},
            {"uid": _OTHER_UID},
            {"uid": created["metadata"]["uid"]},
            {"resourceVersion": "0"},
            {},
            {"resourceVersion": "99999999999"},
        ):
            found.append(short(await side.call("PUT", maps(side, "a"), body=config_map("a", {"a": "3"}, **metadata))))
        return found

    assert [code for code, _ in await bare.same(observe)] == [409, 409, 200, 200, 200, 409]


@pytest.mark.promise("API-006")
@pytest.mark.parametrize("content_type", _TYPES)
async def test_preconditions_of_a_patch(bare: Both, content_type: str) -> None:
    """A stale version is 409, another uid is 422."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a", {"a": "1"}))
        await patched(side, maps(side, "a"), {"data": {"a": "2"}})
        found = []
        for metadata in (
            {"resourceVersion": created["metadata"]["resourceVersion"]},
            {"uid": _OTHER_UID},
            {"uid": created["metadata"]["uid"]},
            {"uid": _OTHER_UID, "resourceVersion": created["metadata"]["resourceVersion"]},
        ):
            found.append(short(await patched(side, maps(side, "a"), {"metadata": metadata}, content_type)))
        return found

    assert [code for code, _ in await bare.same(observe)] == [409, 422, 200, 409]


@pytest.mark.promise("API-005")
async def test_a_stale_write_of_a_pod_or_node(bare: Both) -> None:
    """409 for each kind, with the same text; the newest version is taken."""

    async def observe(side: Side) -> Any:
        name = node_of(side)
        node = await made(side, "/api/v1/nodes", {"metadata": {"name": name}})
        mine = await made(side, pods(side), pod("p"))
        found = []
        for path, created in ((f"/api/v1/nodes/{name}", node), (pods(side, "p"), mine)):
            body = {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
            for where in ("", "", "/status"):
                answer = await side.call("PUT", path + where, body=body)
                found.append(short(answer) if answer.code != 200 else [200])
        await side.call("DELETE", f"/api/v1/nodes/{name}")
        return found

    assert [each[0] for each in await bare.same(observe)] == [200, 409, 409] * 2


async def test_a_lease_needs_its_version(bare: Both) -> None:
    """D5: a PUT without a version is refused: two leaders cannot both renew."""

    async def observe(side: Side) -> Any:
        body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
        created = await made(side, leases(side), body)
        found = [short(await side.call("PUT", leases(side, "l"), body=body))]
        created["spec"]["holderIdentity"] = "b"
        found += [short(await side.call("PUT", leases(side, "l"), body=created)) for _ in range(2)]
        created["spec"]["holderIdentity"] = "c"
        return [*found, short(await side.call("PUT", leases(side, "l"), body=created))]

    seen = await bare.same(observe)
    assert [code for code, _ in seen] == [422, 200, 409, 409]


async def test_a_namespace_in_the_body(bare: Both) -> None:
    """D3: must be the URL's, or be absent; a namespace must be there."""

    async def observe(side: Side) -> Any:
        found = [
            await side.call("POST", maps(side), body=config_map("a", namespace="other")),
            await side.call("POST", maps(side), body=config_map("a", namespace=side.namespace)),
            await side.call("POST", "/api/v1/namespaces/missing/configmaps", body=config_map("a")),
            await side.call("PUT", maps(side, "a"), body=config_map("b")),
            await side.call("PUT", maps(side, "missing"), body=config_map("missing")),
            await side.call("PUT", maps(side, "a"), body={"data": {}}),
        ]
        return [short(each) for each in found]

    assert [code for code, _ in await bare.same(observe)] == [400, 201, 404, 400, 404, 400]


async def test_generated_names(bare: Both) -> None:
    """D3: five letters and digits are added, to 58 signs of the prefix at most; a name wins."""

    async def observe(side: Side) -> Any:
        found = []
        for metadata in (
            {"generateName": "abc-"},
            {"generateName": "x" * 70},
            {"generateName": "abc-", "name": "named"},
            {"generateName": "Wrong_"},
            {"generateName": ""},
        ):
            answer = await side.call("POST", maps(side), body={"metadata": metadata})
            item = answer.body
            if answer.code == 201:
                name = item["metadata"]["name"]
                found.append([answer.code, re.sub(r"[bcdfghjklmnpqrstvwxz2456789]{5}$", "<letters>", name), len(name)])
                continue
            found.append([answer.code, item["reason"]])
        return found

    seen = await bare.same(observe)
    assert seen[0][1:] == ["abc-<letters>", 9]
    assert seen[1][2] == 63


@pytest.mark.parametrize(
    "name",
    ["UPPER", "a_b", "-a", "a..b", "a.b", "x" * 253, "x" * 254, "a/b", "1", "ä", "."],
)
async def test_names(bare: Both, name: str) -> None:
    """D3: 422 for a name that is no DNS subdomain; a namespace's has no dots."""

    async def observe(side: Side) -> Any:
        body, dry = {"metadata": {"name": name}}, {"dryRun": "All"}
        namespace = await side.call("POST", "/api/v1/namespaces", body=body, params=dry)
        return [short(await side.call("POST", maps(side), body=config_map(name))), namespace.code]

    await bare.same(observe)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"ok": "value", "example.com/x": ""}},
        {"labels": {"bad key": "v"}},
        {"labels": {"k": "bad value!"}},
        {"labels": {"k": "x" * 64}},
        {"labels": {"x" * 64: "v"}},
        {"labels": {"UPPER.com/x": "v"}},
        {"labels": {"/x": "v"}},
        {"labels": {"a/b/c": "v"}},
        {"labels": {"": "v"}},
        {"labels": {"x" * 254 + "/a": "v"}},
        {"annotations": {"UPPER.com/x": "any thing!"}},
        {"annotations": {"bad key": "v"}},
        {"annotations": {"": "v"}},
        {"annotations": {"a": "x" * (256 * 1024 - 1)}},
        {"annotations": {"a": "x" * (256 * 1024)}},
        {"finalizers": ["bad finalizer"]},
        {"finalizers": ["unqualified"]},
        {"finalizers": ["example.com/ok"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]},
        {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": each, "uid": each, "controller": True} for each in "ab"
            ]
        },
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "u"}]},
    ],
)
async def test_metadata_is_checked(bare: Both, metadata: dict[str, Any]) -> None:
    """D3: labels, annotations (256 KiB in all), finalizers and owners; every wrong field is named."""

    async def observe(side: Side) -> Any:
        answer = await side.call("POST", maps(side), body=config_map("a", **metadata))
        if answer.code == 201:
            return [201, answer.body["metadata"].get("labels"), answer.body["metadata"].get("ownerReferences")]
        return short(answer)

    await bare.same(observe)


async def test_a_dry_run(bare: Both) -> None:
    """D3: answers as if it were done, and nothing is written, by any verb."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a", {"a": "1"}))
        dry = {"dryRun": "All"}
        changed = config_map("a", {"a": "2"})
        answers = [
            await side.call("POST", maps(side), body=config_map("b"), params=dry),
            await side.call("PUT", maps(side, "a"), body=changed, params=dry),
            await side.call("PATCH", maps(side, "a"), body={"data": {"a": "3"}}, params=dry, content_type=MERGE),
            await side.call("DELETE", maps(side, "a"), params=dry),
            await side.call("POST", maps(side), body=config_map("a"), params=dry),
            await side.call("POST", maps(side), body=config_map("b"), params={"dryRun": "Some"}),
        ]
        listed = await got(side, maps(side))
        mine = [each for each in listed["items"] if each["metadata"]["name"] in "ab"]
        return [
            [short(each) for each in answers],
            mine == [{k: v for k, v in created.items() if k not in ("kind", "apiVersion")}],
        ]

    answers, untouched = await bare.same(observe)
    assert [code for code, _ in answers] == [201, 200, 200, 200, 409, 422]
    assert untouched


@pytest.mark.parametrize(
    "body",
    [
        {"data": {"ok-key_1.x": "v"}},
        {"data": {"bad key": "v"}},
        {"data": {"..": "v"}},
        {"data": {"number": 7}},
        {"data": {"a": None}},
        {"binaryData": {"a": "aGk="}},
        {"binaryData": {"a": "not base64!"}},
        {"data": {"a": "v"}, "binaryData": {"a": "aGk="}},
        {"immutable": True, "data": {"a": "v"}},
        {"data": "text"},
        {"data": {"a": "x" * (1024 * 1024 + 1)}},
    ],
)
async def test_config_maps_are_checked(bare: Both, body: dict[str, Any]) -> None:
    """D3: keys, texts, and a mebibyte in all."""

    async def observe(side: Side) -> Any:
        answer = await side.call("POST", maps(side), body={**config_map("a"), **body})
        return [answer.code, len(str(answer.body))] if len(str(body)) > 2000 else short(answer)

    await bare.same(observe)


async def test_a_put_that_changes_nothing_is_no_write(bare: Both) -> None:
    """D3: the version stays."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("a", {"a": "1"}))
        answer = await side.call("PUT", maps(side, "a"), body=created)
        return [answer.code, version_of(answer.body) == version_of(created)]

    assert await bare.same(observe) == [200, True]


async def test_preconditions_of_a_json_patch(bare: Both) -> None:
    """D3: as with the others, and its tests are 422."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a", {"a": "1"}))
        found = []
        for operation in (
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
            {"op": "replace", "path": "/metadata/uid", "value": _OTHER_UID},
        ):
            answer = await patched(side, maps(side, "a"), [operation], "application/json-patch+json")
            found.append(short(answer))
        return found

    assert [code for code, _ in await bare.same(observe)] == [409, 422]


async def test_creating_with_what_is_the_servers(bare: Both) -> None:
    """D3: uid, times and generation are set again; a version is refused."""

    async def observe(side: Side) -> Any:
        theirs: dict[str, Any] = {
            "uid": _OTHER_UID,
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "generation": 7,
            "deletionTimestamp": "2020-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 5,
            "selfLink": "/x",
        }
        created = await made(side, maps(side), config_map("a", **theirs))
        other = created["metadata"]["uid"] != _OTHER_UID and not created["metadata"]["creationTimestamp"].startswith(
            "2020"
        )
        refused = await side.call("POST", maps(side), body=config_map("b", resourceVersion="7"))
        return [created, other, short(refused)]

    created, other, refused = await bare.same(observe)
    assert other
    assert "deletionTimestamp" not in created["metadata"]
    assert refused[0] == 500


async def test_an_immutable_config_map(bare: Both) -> None:
    """D3: its data cannot change any more, its labels can."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), {**config_map("a", {"a": "1"}), "immutable": True})
        patches = (
            {"data": {"a": "2"}},
            {"immutable": None},
            {"immutable": False},
            {"metadata": {"labels": {"a": "b"}}},
        )
        return [short(await patched(side, maps(side, "a"), each)) for each in patches]

    assert [code for code, _ in await bare.same(observe)] == [422, 422, 422, 200]


async def test_two_writers_without_versions(bare: Both) -> None:
    """D3: two patches of different keys in parallel both take effect."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("a", {"a": "1"}))
        answers = await asyncio.gather(
            *(patched(side, maps(side, "a"), {"data": {f"k{number}": "v"}}) for number in range(10))
        )
        return [{each.code for each in answers} == {200}, sorted((await got(side, maps(side, "a")))["data"])]

    fine, keys = await bare.same(observe)
    assert fine
    assert len(keys) == 11
