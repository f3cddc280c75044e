"""Promises of clusters.api.admission_policies and of what targets say of policies, against the embedded API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.api.admission_policies import install, keep_programs, remove
from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import Connection
from clusters.api.resources import (
    MUTATING_ADMISSION_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from clusters.deploy.render import BASE
from clusters.provider import ClusterError
from clusters.targets import FOLDER, load_target
from tests.servers import StubApi, serve

MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {MEMORY: "8138"}}}]},
}


async def test_the_policies_of_a_target_act_once_they_are_installed(api: ApiClient) -> None:
    """The probe leaves no pod behind; installing twice is no error."""
    target = load_target("gpushare-slots")
    for _ in range(2):
        assert await install(api, target.policy_manifests(), target.policy_probe)
    assert await api.list(PODS) == []

    created = await api.create(POD, "default")
    assert created["spec"]["containers"][0]["resources"]["limits"] == {MEMORY: "8138", SLOT: "1"}


async def test_policies_that_are_removed_act_no_longer(api: ApiClient) -> None:
    """A pod that is created then is stored unchanged."""
    target = load_target("gpushare-slots")
    await install(api, target.policy_manifests(), target.policy_probe)
    await remove(api, target.policy_manifests(), target.policy_probe)

    created = await api.create(POD, "default")
    assert created["spec"]["containers"][0]["resources"]["limits"] == {MEMORY: "8138"}
    assert await api.list(MUTATING_ADMISSION_POLICIES) == []


async def test_only_the_accounts_of_programs_are_kept(api: ApiClient) -> None:
    """A client deletes accounts with names that begin alike, and not those that programs beside the cluster act as."""
    await keep_programs(api)
    for name in ("gpushare-schd-extender", "gpushare-validate"):
        metadata = {"name": name, "namespace": "kube-system"}
        await api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    await api.delete(SERVICE_ACCOUNTS, "gpushare-validate", "kube-system")
    with pytest.raises(ApiError, match="the programs of this cluster run beside it and need this"):
        await api.delete(SERVICE_ACCOUNTS, "gpushare-schd-extender", "kube-system")


def denial(name: str) -> list[dict[str, object]]:
    """A policy that denies all pods, and its binding."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}]
    head = {"apiVersion": VALIDATING_ADMISSION_POLICIES.api_version, "metadata": {"name": name}}
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": "no"}]}
    return [
        {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {
            **head,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


async def test_validating_policies_act_once_they_are_installed(api: ApiClient) -> None:
    """The probe goes again; installing twice is no error."""
    for _ in range(2):
        assert await install(api, denial("x"), {})
    with pytest.raises(ApiError, match="ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no"):
        await api.create(POD, "default")
    assert [each["metadata"]["name"] for each in await api.list(VALIDATING_ADMISSION_POLICIES)] == ["x"]
    assert [each["metadata"]["name"] for each in await api.list(VALIDATING_ADMISSION_POLICY_BINDINGS)] == ["x"]


async def test_an_api_server_without_the_kind_goes_without() -> None:
    """Releases before 1.36: their manifests name the slot."""
    old = StubApi()
    old.fault = lambda method, path: (404, {"kind": "Status", "message": "404 page not found", "code": 404})
    async with serve(old) as url, Connection(url) as http:
        target = load_target("gpushare-slots")

        manifests = [*target.policy_manifests(), *denial("x")]
        assert not await install(ApiClient(http), manifests, target.policy_probe)


async def test_a_policy_that_the_server_refuses_is_an_error(api: ApiClient) -> None:
    """A refusal of a policy is an error; the server is not taken for an old one."""
    nameless = {"apiVersion": MUTATING_ADMISSION_POLICIES.api_version, "kind": MUTATING_ADMISSION_POLICIES.kind}
    with pytest.raises(ApiError):
        await install(api, [{**nameless, "metadata": {}, "spec": {}}], {})


def test_the_policies_of_a_target_are_those_of_the_base() -> None:
    """In slots mode, and the policy of slots mode after them."""
    ids, slots = load_target("gpushare"), load_target("gpushare-slots")
    base = {path.name for path in BASE.glob("*-policy.yaml")}

    assert {Path(name).name for name in ids.policies} == base
    assert slots.policies[:-1] == ids.policies
    assert (dict(ids.policy_probe), list(slots.policy_probe)) == ({}, ["asks", "gets"])


def test_the_slots_target_differs_in_what_makes_it_one(tmp_path: Path) -> None:
    """The slots target has the same programs and rights as the default one, but its plugin runs with ``--mode slots``."""
    ids, slots = load_target("gpushare"), load_target("gpushare-slots")

    assert (slots.extender, slots.inspect, slots.roles) == (ids.extender, ids.inspect, ids.roles)
    assert [word for word in slots.device_plugin.argv if word not in ids.device_plugin.argv] == ["--mode", "slots"]
    assert slots.device_plugin.resource == SLOT


def test_missing_policy_is_an_error_that_names_the_target(tmp_path: Path) -> None:
    """The file is at fault, not the program that runs into it."""
    text = (FOLDER / "gpushare-slots.yaml").read_text().replace("gpu-slot-policy.yaml", "none.yaml")
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ClusterError, match="the policies of target gpushare-slots"):
        load_target(str(tmp_path / "t.yaml")).policy_manifests()
