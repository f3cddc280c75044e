"""The patch types, and what each of them makes of an object."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.parity.parity_objects import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    config_map,
    container,
    got,
    made,
    maps,
    patched,
    place,
    pod,
    pods,
    short,
)
from e2e.parity.sides import Both, Side


async def test_a_json_patch_of_many_operations(bare: Both) -> None:
    """D3: in order, all or nothing; ~1 is a slash and ~0 a tilde."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("c", {"a": "1"}, annotations={"aliyun.com/x": "1"}))
        operations = [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/metadata/annotations/aliyun.com~1x", "value": "2"},
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/labels/l", "value": "v"},
            {"op": "copy", "from": "/data/a", "path": "/data/b"},
            {"op": "move", "from": "/data/a", "path": "/data/c"},
            {"op": "remove", "path": "/data/b"},
        ]
        return short(await patched(side, maps(side, "c"), operations, JSON_PATCH))

    code, body = await bare.same(observe)
    assert code == 200
    assert (body["data"], body["metadata"]["annotations"]) == ({"c": "1"}, {"aliyun.com/x": "2"})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/metadata/annotations/a", "value": "below nothing"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "replace", "path": "/metadata/annotations/a", "value": "below nothing"},
        {"op": "test", "path": "/data/missing", "value": "x"},
        {"op": "move", "from": "/data/missing", "path": "/data/b"},
        {"op": "wrong", "path": "/data/a"},
    ],
)
async def test_an_operation_that_fails(bare: Both, operation: dict[str, Any]) -> None:
    """D3: 422, and nothing of the patch is done."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("c", {"a": "1"}))
        patch = [{"op": "add", "path": "/data/done", "value": "x"}, operation]
        code, body = short(await patched(side, maps(side, "c"), patch, JSON_PATCH))
        after = await got(side, maps(side, "c"))
        return [code, body["reason"], body.get("details"), after == created]

    code, _, _, unchanged = await bare.same(observe)
    assert (code, unchanged) == (422, True)


async def test_operations_on_what_is_not_there(bare: Both) -> None:
    """D3: replacing a key adds it, a copy of nothing is an empty text, and nothing equals null."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("c", {"a": "1"}))
        found = []
        for operation in (
            {"op": "replace", "path": "/data/new", "value": "x"},
            {"op": "copy", "from": "/data/missing", "path": "/data/empty"},
            {"op": "test", "path": "/data/missing", "value": None},
            {"op": "replace", "path": "/metadata/annotations", "value": {"a": "b"}},
        ):
            found.append(short(await patched(side, maps(side, "c"), [operation], JSON_PATCH)))
        return found

    seen = await bare.same(observe)
    assert seen[3][1]["data"] == {"a": "1", "new": "x", "empty": ""}


async def test_a_merge_patch(bare: Both) -> None:
    """D3: maps are merged and made, null deletes, lists are replaced."""

    async def observe(side: Side) -> Any:
        finalizers = ["example.com/a", "example.com/b"]
        await made(side, maps(side), config_map("c", {"a": "1", "b": "2"}, finalizers=finalizers))
        patch = {
            "data": {"a": None, "c": "3"},
            "metadata": {"annotations": {"new": "x", "never": None}, "finalizers": ["example.com/c"]},
        }
        first = short(await patched(side, maps(side, "c"), patch))
        second = short(await patched(side, maps(side, "c"), {"data": None, "metadata": {"finalizers": None}}))
        return [first, second]

    (_, first), (_, second) = await bare.same(observe)
    assert first["data"] == {"b": "2", "c": "3"}
    assert first["metadata"]["finalizers"] == ["example.com/c"]
    assert "data" not in second


def deployment(name: str) -> dict[str, Any]:
    """One with much to patch."""
    labels = {"app": name}
    variables = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    containers = [container("a", env=variables, ports=[{"containerPort": 80}]), container("b")]
    spec = {"containers": containers, "tolerations": [{"key": "k", "operator": "Exists"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


@pytest.mark.parametrize(
    ("what", "patch"),
    [
        ("deletes", {"containers": [{"name": "a", "$patch": "delete"}]}),
        ("adds", {"containers": [container("c", "other")]}),
        ("orders", {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        (
            "orders and adds",
            {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
                "containers": [container("c", "other")],
            },
        ),
        ("replaces", {"containers": [{"$patch": "replace"}, container("only", "other")]}),
        (
            "variables",
            {"containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]}]},
        ),
        ("a variable becomes null", {"containers": [{"name": "a", "env": [{"name": "A", "value": None}]}]}),
        ("all variables go", {"containers": [{"name": "a", "env": None}]}),
        ("ports", {"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]}),
        ("tolerations are one value", {"tolerations": [{"key": "other", "operator": "Exists"}]}),
        ("retains", {"containers": [{"name": "a", "$retainKeys": ["name", "image"], "image": "kept"}]}),
        ("node selector", {"nodeSelector": {"a": "b", "c": None}}),
        ("volumes", {"volumes": [{"name": "v", "emptyDir": {}}]}),
        ("pull secrets", {"imagePullSecrets": [{"name": "s"}]}),
        ("no key", {"containers": [{"image": "nameless"}]}),
        ("host aliases", {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]}),
        (
            "spread",
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]},
        ),
        ("null spec", {"containers": None}),
    ],
)
async def test_a_strategic_patch_of_a_template(bare: Both, what: str, patch: dict[str, Any]) -> None:
    """D3: lists are merged by their keys, and its directives are obeyed."""

    async def observe(side: Side) -> Any:
        path = place(side, "deployments", root="/apis/apps/v1")
        await made(side, path, deployment("d"))
        answer = await patched(side, f"{path}/d", {"spec": {"template": {"spec": patch}}}, STRATEGIC)
        if what == "no key":
            return [answer.code, answer.body["code"]]
        return short(answer)

    await bare.same(observe)


async def test_a_strategy_that_changes_retains_only_its_own_keys(bare: Both) -> None:
    """D3: as kubectl sends it: the parameters of the strategy before go."""

    async def observe(side: Side) -> Any:
        path = place(side, "deployments", root="/apis/apps/v1")
        await made(side, path, deployment("d"))
        wrong = await patched(side, f"{path}/d", {"spec": {"strategy": {"type": "Recreate"}}}, STRATEGIC)
        strategy = {"$retainKeys": ["type"], "type": "Recreate"}
        right = await patched(side, f"{path}/d", {"spec": {"strategy": strategy}}, STRATEGIC)
        return [short(wrong), short(right)]

    wrong, right = await bare.same(observe)
    assert (wrong[0], right[0]) == (422, 200)
    assert right[1]["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("content_type", [JSON_PATCH, MERGE, STRATEGIC])
async def test_a_patch_that_changes_nothing_is_no_write(bare: Both, content_type: str) -> None:
    """D3: the version stays, and no watch hears of it."""

    async def observe(side: Side) -> Any:
        created = await made(side, maps(side), config_map("c", {"a": "1"}))
        patch: Any = (
            [{"op": "replace", "path": "/data/a", "value": "1"}] if content_type == JSON_PATCH else {"data": {"a": "1"}}
        )
        answer = await patched(side, maps(side, "c"), patch, content_type)
        return [answer.code, answer.body["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]]

    assert await bare.same(observe) == [200, True]


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"name": "other"}},
        {"metadata": {"namespace": "other"}},
        {"metadata": {"name": None}},
        {"metadata": None},
        {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"creationTimestamp": None}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"generation": 7}},
        {"metadata": {"selfLink": "/x"}},
        {"metadata": {"generateName": "x-"}},
    ],
)
async def test_a_patch_of_what_is_the_servers(bare: Both, patch: dict[str, Any]) -> None:
    """D3: names cannot change; what the server writes itself stays, or the patch is refused."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("c", {"a": "1"}))
        return short(await patched(side, maps(side, "c"), patch))

    await bare.same(observe)


@pytest.mark.promise("API-007")
async def test_annotations_by_each_type(bare: Both) -> None:
    """Annotations are patched as extenders and device plugins do it: by name, with a null, below a parent that is not there."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        found = []
        for content_type, patch in (
            (MERGE, {"metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}}),
            (STRATEGIC, {"metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "gone": None}}}),
            (JSON_PATCH, [{"op": "add", "path": "/metadata/annotations/aliyun.com~1x", "value": "1"}]),
            (JSON_PATCH, [{"op": "remove", "path": "/metadata/annotations/ALIYUN_COM_GPU_MEM_IDX"}]),
            (MERGE, {"metadata": {"annotations": None}}),
        ):
            found.append(short(await patched(side, pods(side, "p"), patch, content_type)))
        return found

    seen = await bare.same(observe)
    assert seen[3][1]["metadata"]["annotations"] == {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "aliyun.com/x": "1"}


async def test_a_merge_patch_replaces_the_containers(bare: Both) -> None:
    """D3: lists are not merged by names in it: what it leaves out of a container is missing."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p"))
        await made(side, pods(side), pod("q", {"containers": [container("main", "i", imagePullPolicy="Never")]}))
        patch = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
        found = []
        for name in "pq":
            found.append(short(await patched(side, pods(side, name), patch)))
        return found

    seen = await bare.same(observe)
    assert [code for code, _ in seen] == [422, 422]


async def test_finalizers_are_a_set(bare: Both) -> None:
    """D3: a strategic patch adds to them, and takes single ones away."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("c", finalizers=["example.com/a"]))
        found = []
        for metadata in (
            {"finalizers": ["example.com/b", "example.com/a"]},
            {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]},
            {"finalizers": None},
        ):
            found.append(short(await patched(side, maps(side, "c"), {"metadata": metadata}, STRATEGIC)))
        return found

    seen = await bare.same(observe)
    assert seen[1][1]["metadata"]["finalizers"] == ["example.com/b"]


async def test_owners_are_merged_by_their_uid(bare: Both) -> None:
    """D3: a strategic patch changes one of them."""

    async def observe(side: Side) -> Any:
        uids = ["00000000-0000-4000-8000-00000000000" + each for each in "12"]
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"o{each[-1]}", "uid": each} for each in uids]
        await made(side, maps(side), config_map("c", ownerReferences=owners))
        changes = [{"uid": uids[0], "controller": True}, {"uid": uids[1], "$patch": "delete"}]
        return short(await patched(side, maps(side, "c"), {"metadata": {"ownerReferences": changes}}, STRATEGIC))

    _, body = await bare.same(observe)
    assert [each["name"] for each in body["metadata"]["ownerReferences"]] == ["o1"]


@pytest.mark.parametrize("content_type", [JSON_PATCH, MERGE, STRATEGIC])
async def test_a_patch_of_what_is_not_there(bare: Both, content_type: str) -> None:
    """D3: 404."""

    async def observe(side: Side) -> Any:
        patch: Any = [] if content_type == JSON_PATCH else {}
        return short(await patched(side, maps(side, "missing"), patch, content_type))

    assert (await bare.same(observe))[0] == 404


@pytest.mark.parametrize("value", ["7", 7, "7.5", None, {"a": "b"}, True])
async def test_an_annotation_is_a_text(bare: Both, value: Any) -> None:
    """D3: a number in its place is refused; null takes it away."""

    async def observe(side: Side) -> Any:
        await made(side, pods(side), pod("p", annotations={"a": "1"}))
        answer = await patched(side, pods(side, "p"), {"metadata": {"annotations": {"a": value}}})
        return (
            answer.body["metadata"].get("annotations") if answer.code == 200 else [answer.code, answer.body["reason"]]
        )

    await bare.same(observe)
