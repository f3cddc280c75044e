"""The rights of users: credentials, roles, reviews, ServiceAccounts, and the admission of pods."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.api.certificates import Authority
from clusters.api.connection import TransportError
from clusters.api.waiting import eventually
from e2e.parity.parity_requests import compare, delete, merge, post
from e2e.parity.sides import Answer, Both, Side, account_token, stranger

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
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
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("POST", _WHO),
)


async def ways(side: Side, who: Side) -> list[Any]:
    """The result of each credential, for a user."""
    found = []
    for method, path in _WAYS:
        answer = await who.call(method, path.format(side.namespace), body={} if method != "GET" else None)
        found.append([method, path, *short(answer)])
    return found


def short(answer: Answer) -> list[Any]:
    """The code, and the body if it is a refusal."""
    refused = isinstance(answer.body, dict) and answer.body.get("kind") == "Status"
    return [answer.code, answer.body if refused else None]


@pytest.mark.promise("G1-16")
async def test_anonymous_callers_reach_public_paths_alone(both: Both) -> None:
    """A caller without a credential reaches only health and version, and each refusal names its reason."""

    async def observe(side: Side) -> Any:
        async with stranger(side) as nobody:
            return [await ways(side, nobody), (await nobody.call("GET", "/version")).code]

    seen, version = await both.same(observe)
    assert version == 200
    assert {code for _, path, code, _ in seen if path in ("/healthz", "/livez", "/readyz")} == {200}
    assert {code for _, path, code, _ in seen if "pods" in path} == {403}


@pytest.mark.promise("G1-16")
async def test_a_wrong_token_is_401_everywhere(both: Both) -> None:
    """A wrong token is 401 even on public paths, and another scheme than Bearer counts as no credential."""

    async def observe(side: Side) -> Any:
        async with stranger(side, token="nonsense") as who:
            found = await ways(side, who)
        async with stranger(side) as nobody:
            basic = await nobody.call("GET", "/api/v1/pods", headers={"authorization": "Basic YTpi"})
        return [found, short(basic)]

    found, basic = await both.same(observe)
    assert {code for _, _, code, _ in found} == {401}
    assert basic[0] == 403


@pytest.mark.promise("G1-16")
async def test_an_expired_certificate_is_401_not_a_failed_handshake(both: Both) -> None:
    """An expired certificate is answered with 401, and a good token beside it counts."""

    async def observe(side: Side) -> Any:
        expired = side.cluster.client_certificate("late", "system:masters", datetime(2020, 1, 1, tzinfo=UTC))
        async with stranger(side, certificate=expired) as late:
            alone = [short(await late.call("GET", path)) for path in ("/api/v1/pods", "/healthz")]
        token = await account_token(side, "bot")
        async with stranger(side, certificate=expired, token=token) as late:
            return [alone, (await late.call("POST", _WHO, body={})).body["status"]["userInfo"]["username"]]

    alone, name = await both.same(observe)
    assert [code for code, _ in alone] == [401, 401]
    assert name.endswith(":bot")


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


async def test_a_certificate_names_its_user(both: Both) -> None:
    """A certificate's common name is the user and its organization a group, even beside a wrong token."""

    async def observe(side: Side) -> Any:
        certificate = side.cluster.client_certificate("ann", "people")
        async with stranger(side, certificate=certificate, token="nonsense") as ann:
            user = (await ann.call("POST", _WHO, body={})).body["status"]["userInfo"]
            return [{**user, "extra": sorted(user["extra"])}, await ways(side, ann)]

    user, _ = await both.same(observe)
    assert (user["username"], user["groups"]) == ("ann", ["people", "system:authenticated"])


async def test_a_service_accounts_token(both: Both) -> None:
    """A token has its account's claims and rights, and is 401 if changed or for another audience."""

    async def observe(side: Side) -> Any:
        token = await account_token(side, "bot")
        other = await account_token(side, "bot", audiences=["other"], expirationSeconds=600)
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
        async with stranger(side, token=token) as bot:
            who = (await bot.call("POST", _WHO, body={})).body
            found = await ways(side, bot)
        codes = []
        for wrong in (token[:-6] + "AAAAAA", other, "a.b.c"):
            async with stranger(side, token=wrong) as nobody:
                codes.append((await nobody.call("GET", "/api")).code)
        who["status"]["userInfo"]["extra"] = sorted(who["status"]["userInfo"]["extra"])
        lasts = claims["exp"] - claims["iat"]
        return [sorted(header), {**claims, "exp": 0, "iat": 0, "nbf": 0}, lasts, who, found, codes]

    header, claims, lasts, who, _, codes = await both.same(observe)
    assert header == ["alg", "kid"]
    assert lasts == 3600
    assert who["status"]["userInfo"]["username"] == claims["sub"]
    assert codes == [401, 401, 401]


async def test_a_token_ends_with_its_pod_and_its_account(both: Both) -> None:
    """A token is refused once its account is gone, or the pod to which it is bound."""

    async def observe(side: Side) -> Any:
        pods, place = (f"/api/v1/namespaces/{side.namespace}/{kind}" for kind in ("pods", "serviceaccounts"))
        free = await account_token(side, "bot")
        created = await side.call("POST", pods, body=pod("holder", serviceAccountName="bot"))
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
        name = side.namespace
        everywhere = {
            "names": [rule(["get"], ["configmaps"], resourceNames=["mine"])],
            "urls": [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz/*"]}],
            "parts": [rule(["patch"], ["*/status"]), rule(["*"], ["deployments"], apiGroups=["apps"])],
        }
        await grant(side, "here", [rule(["get", "list"], ["pods"]), rule(["create"], ["pods/binding"])], here=True)
        for end, rules in everywhere.items():
            await grant(side, f"{name}-{end}", rules)
        certificate = side.cluster.client_certificate(f"{name}-user", None)
        async with stranger(side, certificate=certificate) as user:
            await eventually(
                lambda: user.call("GET", "/apis/apps/v1/deployments"),
                lambda answer: answer.code == 200,
                "the last role is known",
            )
            found = [
                short(await user.call(method, path.format(name), body=None if method == "GET" else {}))
                for method, path, _ in _OPENED
            ]
        for end in everywhere:
            for kind in ("clusterroles", "clusterrolebindings"):
                await side.call("DELETE", f"{_RBAC}/{kind}/{name}-{end}")
        return found

    assert [code for code, _ in await both.same(observe)] == [code for *_, code in _OPENED]


async def test_every_namespace_is_furnished(both: Both) -> None:
    """Each namespace has a default ServiceAccount and the CA's ConfigMap, which return when deleted."""

    async def observe(side: Side) -> Any:
        place = f"/api/v1/namespaces/{side.namespace}"
        names = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")

        async def codes() -> list[int]:
            return [(await side.call("GET", f"{place}/{name}")).code for name in names]

        await eventually(codes, lambda found: found == [200, 200], "the namespace is furnished")
        account = await side.call("GET", f"{place}/{names[0]}")
        for name in names:
            await side.call("DELETE", f"{place}/{name}")
        await eventually(codes, lambda found: found == [200, 200], "the namespace is furnished again")
        published = await side.call("GET", f"{place}/{names[1]}")
        return [account.body, sorted(published.body["data"]), published.body["data"]["ca.crt"][:27]]

    seen = await both.same(observe)
    assert seen[1:] == [["ca.crt"], "-----BEGIN CERTIFICATE-----"]


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
        post("serviceaccounts", {"metadata": {"name": "mute"}, "automountServiceAccountToken": False}),
        post("serviceaccounts", {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "key"}]}),
        *(post("pods", pod(f"p{number}", **spec)) for number, spec in enumerate(specs)),
    )


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def rule(verbs: list[str], resources: list[str], **more: Any) -> dict[str, Any]:
    """A rule of a role, for the core group unless ``group`` is given."""
    return {"verbs": verbs, "apiGroups": [""], "resources": resources, **more}


def binding(name: str, role: str, subject: dict[str, str], kind: str = "Role") -> dict[str, Any]:
    """A binding of a role to a user."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


async def grant(
    side: Side, name: str, rules: Any, *, here: bool = False, subject: dict[str, str] | None = None
) -> None:
    """A role, and its binding to the user of the case; in its namespace or everywhere."""
    place = f"{_RBAC}/namespaces/{side.namespace}/" if here else f"{_RBAC}/cluster"
    kind = "Role" if here else "ClusterRole"
    subject = subject or {"kind": "User", "name": f"{side.namespace}-user"}
    await side.call("POST", f"{place}roles", body={"metadata": {"name": name}, "rules": rules})
    answer = await side.call("POST", f"{place}rolebindings", body=binding(name, name, subject, kind))
    assert answer.code == 201, answer.body


async def code_with(side: Side, token: str) -> int:
    """The answer to a token."""
    async with stranger(side, token=token) as who:
        return await code_of(who, "/api")


async def code_of(side: Side, path: str) -> int:
    """The answer to a GET."""
    return (await side.call("GET", path)).code


async def test_namespaces_that_are_not_there_or_going(both: Both) -> None:
    """A write is 404 in a missing and 403 in an ending namespace, and some namespaces cannot be deleted."""
    going = "/api/v1/namespaces/${ns}-going"
    held = {"metadata": {"name": "held", "finalizers": ["example.com/held"]}}
    await compare(
        both,
        post("/api/v1/namespaces", {"metadata": {"name": "${ns}-going"}}),
        post(f"{going}/configmaps", held),
        delete(going),
        post("/api/v1/namespaces/missing/pods", pod("p"), 404),
        post("/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "c"}}, 404),
        post(f"{going}/pods", pod("p"), 403),
        post(f"{going}/configmaps", {"metadata": {"generateName": "c"}}, 403),
        post("/apis/apps/v1/namespaces/${ns}-going/deployments", {"metadata": {"name": "d"}}, 403),
        delete("/api/v1/namespaces/default", 403),
        delete("/api/v1/namespaces/kube-system", 403),
        delete("/api/v1/namespaces", 405),
        # The namespace's controller deletes it too, sooner or later; after this request that makes no difference.
        delete(f"{going}/configmaps/held"),
        merge(f"{going}/configmaps/held", {"metadata": {"finalizers": None}}),
    )
