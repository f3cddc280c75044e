"""The rights of users: credentials, roles, ServiceAccounts and their tokens, and the admission of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.api.certificates import Authority
from clusters.api.connection import TransportError
from clusters.api.waiting import eventually
from e2e.parity.parity_requests import ask, compare, made, pod
from e2e.parity.sides import Answer, Both, Side, account_token, stranger

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_WAYS: Final = (
    ("GET", "/api/v1/pods"),
    ("GET", "/api/v1/namespaces/{}/pods/x"),
    ("GET", "/api/v1/namespaces/{}/pods?watch=1"),
    ("POST", "/api/v1/namespaces/{}/pods/x/binding"),
    ("DELETE", "/api/v1/namespaces/{}/pods"),
    ("POST", "/apis/apps/v1/namespaces/{}/deployments"),
    ("GET", "/api/v1"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/version"),
)


def short(answer: Answer) -> list[Any]:
    """The code, and the body if it is a refusal."""
    refused = isinstance(answer.body, dict) and answer.body.get("kind") == "Status"
    return [answer.code, answer.body if refused else None]


# The form of a token and a certificate; the user that they are, or none (401).
Token = Callable[[Side], Awaitable[str]]
_EXPIRED: Final = datetime(2020, 1, 1, tzinfo=UTC)
_ANN: Final = ("ann", ["people", "system:authenticated"])


async def nonsense(_: Side) -> str:
    return "nonsense"


async def tampered(side: Side) -> str:
    """An account's token with another signature."""
    return (await account_token(side, "bot"))[:-6] + "AAAAAA"


def of_bot(side: Side, **spec: Any) -> Awaitable[str]:
    return account_token(side, "bot", **spec)


_CREDENTIALS: Final[dict[str, tuple[Token | None, tuple[Any, ...], Any]]] = {
    "none": (None, (), ("system:anonymous", None)),
    "a wrong token": (nonsense, (), None),
    "a changed token": (tampered, (), None),
    "a token for another audience": (partial(of_bot, audiences=["other"], expirationSeconds=600), (), None),
    "a token": (of_bot, (), "bot"),
    "an expired certificate": (None, ("late", "system:masters", _EXPIRED), None),
    "an expired certificate and a token": (of_bot, ("late", "system:masters", _EXPIRED), "bot"),
    "a certificate and a wrong token": (nonsense, ("ann", "people"), _ANN),
}


@pytest.mark.promise("G1-16")
@pytest.mark.parametrize("name", _CREDENTIALS)
async def test_what_a_credential_opens(both: Both, name: str) -> None:
    """A credential makes its user, or is 401 even on public paths; without one only health and version are open."""
    make, named, expected = _CREDENTIALS[name]

    async def observe(side: Side) -> Any:
        token = await make(side) if make else ""
        certificate = side.cluster.client_certificate(*named) if named else None
        async with stranger(side, token=token, certificate=certificate) as who:
            found = [
                [method, path, *short(await who.call(method, path.format(side.namespace), body=_body(method)))]
                for method, path in _WAYS
            ]
            review = await who.call("POST", _WHO, body={})
        user = review.body.get("status", {}).get("userInfo", {}) if review.code == 201 else None
        return [found, short(review), user and {**user, "extra": sorted(user.get("extra", ()))}]

    found, review, user = await both.same(observe)
    codes = {path: code for _, path, code, _ in found}
    if expected is None:
        assert {review[0], *codes.values()} == {401}
    elif user is None:
        assert (review[0], codes["/api/v1/pods"], codes["/healthz"], codes["/version"]) == (403, 403, 200, 200)
    elif expected == "bot":
        assert user["username"].endswith(":bot")
    else:
        assert (user["username"], user["groups"]) == expected


def _body(method: str) -> Any:
    return None if method == "GET" else {}


async def test_a_certificate_of_another_authority(both: Both, tmp_path: Path) -> None:
    """A foreign certificate opens nothing: the real server answers 401, the embedded one ends the handshake."""
    foreign = Authority(tmp_path).issue_client("root", "system:masters")

    async def observe(side: Side) -> Any:
        async with stranger(side, certificate=foreign) as who:
            try:
                return (await who.call("GET", "/api/v1/pods")).code
            except TransportError:
                return "no connection"

    assert await both.differs("foreign-certificates", observe) == ("no connection", 401)


async def test_a_token_ends_with_its_pod_and_its_account(both: Both) -> None:
    """A token is refused once its account is gone, or the pod to which it is bound."""

    async def observe(side: Side) -> Any:
        pods, place = (f"/api/v1/namespaces/{side.namespace}/{kind}" for kind in ("pods", "serviceaccounts"))
        free = await account_token(side, "bot")
        created = await side.call("POST", pods, body=pod("holder", {"serviceAccountName": "bot"}))
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "holder", "uid": created.body["metadata"]["uid"]}
        bound = await account_token(side, "bot", boundObjectRef=reference)
        found = [await code_with(side, bound)]
        await side.call("DELETE", f"{pods}/holder", body={"gracePeriodSeconds": 0})
        # The real server remembers for some seconds what it has once answered about a token.
        await eventually(lambda: code_with(side, bound), lambda code: code == 401, "the token has ended with its pod")
        found.append(await code_with(side, free))
        await side.call("DELETE", f"{place}/bot")
        await eventually(
            lambda: code_with(side, free), lambda code: code == 401, "the token has ended with its account"
        )
        return found

    assert await both.same(observe) == [200, 200]


async def code_with(side: Side, token: str) -> int:
    async with stranger(side, token=token) as who:
        return (await who.call("GET", "/api")).code


_OPENED: Final = (
    ("GET", "/api/v1/namespaces/{}/pods", 200),
    ("GET", "/api/v1/namespaces/{}/pods/x", 404),
    ("GET", "/api/v1/namespaces/{}/pods/x/log", 403),
    ("POST", "/api/v1/namespaces/{}/pods/x/eviction", 403),
    ("GET", "/api/v1/namespaces/default/pods", 403),
    ("GET", "/api/v1/pods", 403),
    ("GET", "/api/v1/namespaces/{}/configmaps/mine", 404),
    ("GET", "/api/v1/namespaces/{}/configmaps/other", 403),
    ("GET", "/api/v1/namespaces/{}/configmaps", 403),
    ("DELETE", "/apis/apps/v1/namespaces/{}/deployments/d", 404),
    ("GET", "/healthz/ping", 200),
    ("GET", "/metrics/slis", 403),
)


@pytest.mark.promise("G1-16")
async def test_roles_open_what_they_name(both: Both) -> None:
    """A role opens the resources, subresources, names, groups and URLs that it names, and no others."""

    async def observe(side: Side) -> Any:
        async with granted(side), stranger(side, certificate=user_of(side)) as user:
            await eventually(
                lambda: user.call("GET", "/apis/apps/v1/deployments"),
                lambda answer: answer.code == 200,
                "the last role is known",
            )
            return [
                short(await user.call(method, path.format(side.namespace), body=_body(method)))
                for method, path, _ in _OPENED
            ]

    assert [code for code, _ in await both.same(observe)] == [code for *_, code in _OPENED]


def user_of(side: Side) -> Any:
    """The certificate of the case's user."""
    return side.cluster.client_certificate(f"{side.namespace}-user", None)


@asynccontextmanager
async def granted(side: Side) -> AsyncIterator[None]:
    """The roles of the case's user, in its namespace and everywhere; the latter are removed in the end."""
    here, everywhere = f"{_RBAC}/namespaces/{side.namespace}/", f"{_RBAC}/cluster"
    rules: dict[str, tuple[str, list[dict[str, Any]]]] = {
        "here": (here, [rule(["get", "list"], ["pods"]), rule(["create"], ["pods/binding"])]),
        "names": (everywhere, [rule(["get"], ["configmaps"], resourceNames=["mine"])]),
        "urls": (everywhere, [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz/*"]}]),
        "parts": (everywhere, [rule(["patch"], ["*/status"]), rule(["*"], ["deployments"], apiGroups=["apps"])]),
    }
    for end, (place, asked) in rules.items():
        name, kind = f"{side.namespace}-{end}", "Role" if place == here else "ClusterRole"
        subject = {"kind": "User", "name": f"{side.namespace}-user"}
        await side.call("POST", f"{place}roles", body={"metadata": {"name": name}, "rules": asked})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await made(side, f"{place}rolebindings", bound)
    yield
    for end in rules:
        for kind in ("clusterroles", "clusterrolebindings"):
            await side.call("DELETE", f"{_RBAC}/{kind}/{side.namespace}-{end}")


def rule(verbs: list[str], resources: list[str], **more: Any) -> dict[str, Any]:
    """A rule of a role, for the core group unless ``group`` is given."""
    return {"verbs": verbs, "apiGroups": [""], "resources": resources, **more}


async def test_a_pod_is_completed_by_admission(both: Both) -> None:
    """Admission adds account, token volume, tolerations and priority to a pod, equal on both sides."""
    own = {"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    mounted = {"name": "first", "image": "i:1", "volumeMounts": [own]}
    specs: tuple[dict[str, Any], ...] = (
        {},
        {"automountServiceAccountToken": False},
        {"serviceAccountName": "mute"},
        {"serviceAccountName": "puller"},
        {"initContainers": [mounted], "volumes": [{"name": "own", "emptyDir": {}}]},
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        {"priorityClassName": "system-node-critical"},
        {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"},
    )
    await compare(
        both,
        ask("POST", "serviceaccounts", {"metadata": {"name": "mute"}, "automountServiceAccountToken": False}),
        ask("POST", "serviceaccounts", {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "key"}]}),
        *(ask("POST", "pods", pod(f"p{number}", spec)) for number, spec in enumerate(specs)),
    )
