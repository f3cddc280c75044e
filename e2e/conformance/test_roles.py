"""API-011: each program runs with a token of its own ServiceAccount, may do what it needs, and no more."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters.api.api_client import ApiClient
from clusters.targets import Target
from e2e import commands
from e2e.builders import gpu_pod
from e2e.observer import Observer
from e2e.target_capabilities import NOT_APPLICABLE

pytestmark = pytest.mark.needs("roles")

PROGRAMS = ["extender", "device_plugin", "inspect"]
# Rights that no program of a GPU-sharing scheduler needs: (verb, group, resource, subresource).
NEVER = [
    ("get", "", "secrets", ""),
    ("list", "", "secrets", ""),
    ("create", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("create", "", "pods", "exec"),
    ("update", "", "pods", "status"),
    ("update", "", "nodes", ""),
    ("delete", "", "nodes", ""),
    ("get", "", "nodes", "proxy"),
    ("create", "", "serviceaccounts", "token"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("impersonate", "", "users", ""),
    # Components elect their leaders by Leases there; guards of several extenders are in a namespace of their own.
    *((verb, "coordination.k8s.io", "leases", "") for verb in ("get", "create", "update", "patch", "delete")),
]
# Each keeps to its own half of the work; of a node the extender may write the status, with which an annotation goes.
OF_OTHERS = {
    "extender": [("patch", "", "nodes", ""), ("patch", "", "pods", ""), ("patch", "", "pods", "status")],
    "device_plugin": [("create", "", "pods", "binding"), ("patch", "", "nodes", "")],
    "inspect": [("patch", "", "pods", ""), ("watch", "", "pods", ""), ("create", "", "events", "")],
}


def accounts(target: Target) -> dict[str, str]:
    """The accounts of the target's programs; one that runs with the rights of its user has none."""
    found = {program: getattr(target, program).account for program in PROGRAMS if program in target.programs}
    return {program: account for program, account in found.items() if account}


async def allowed(observer: Observer, account: str, *questions: tuple[str, str, str, str]) -> list[Any]:
    """The questions to which the API server answers that the account may."""
    async with ApiClient.from_kubeconfig(await observer.cluster.kubeconfig_of(account)) as api:
        return [each for each in questions if await may(api, *each)]


async def may(api: ApiClient, verb: str, group: str, resource: str, subresource: str) -> bool:
    """The API server's answer to the question of ``kubectl auth can-i``."""
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": "kube-system"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await api.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    return bool(answer["status"]["allowed"])


@pytest.mark.promise("API-011")
@pytest.mark.parametrize("program", [pytest.param(one, marks=pytest.mark.needs(one)) for one in PROGRAMS])
async def test_no_program_may_do_what_it_never_has_to(observer: Observer, target: Target, program: str) -> None:
    """Secrets, pods, roots of more rights, the work of the others: a program that is taken over cannot be used for them."""
    account = accounts(target).get(program)
    if account is None:
        pytest.skip(f"{NOT_APPLICABLE}: {program} of target {target.name} has no account of its own")

    assert await allowed(observer, account, *NEVER, *OF_OTHERS[program]) == []


@pytest.mark.needs("extender", "device_plugin")
@pytest.mark.promise("API-011")
async def test_no_pod_was_refused_while_a_pod_came_to_its_card(observer: Observer) -> None:
    """The roles are wide enough: a pod runs, and the authorizer has refused neither program anything."""
    await observer.run(gpu_pod("p", 1, node="a1"))
    await observer.check_right_cards("p")
    logs = observer.cluster.log("extender") + observer.cluster.log("device_plugin", "a1")

    # The authorizer's words. Admission forbids too: another case's namespace may end while a pod of it is being bound.
    assert [line for line in logs.splitlines() if re.search(r"User .* cannot ", line)] == []


@pytest.mark.needs("device_plugin")
async def test_plugin_may_write_the_events_about_trouble(observer: Observer, target: Target) -> None:
    """The plugin may create and patch events; it goes on if it is refused, so no other case would show the missing right."""
    questions = [(verb, "", "events", "") for verb in ("create", "patch")]

    assert await allowed(observer, target.device_plugin.account, *questions) == questions


@pytest.mark.needs("inspect")
@pytest.mark.promise("API-011")
async def test_inspect_needs_only_its_role(observer: Observer, target: Target) -> None:
    """The table comes with the token of its account."""
    await observer.run(gpu_pod("p", 1, node="a1"))
    account = await observer.cluster.kubeconfig_of(target.inspect.account)
    table = await output(target, account, "-d")

    assert any(line.split()[:2] == ["p", observer.namespace] for line in table.splitlines())


async def output(target: Target, account: Path, *arguments: str) -> str:
    """The output of ``kubectl inspect gpushare``."""
    argv, environment = target.inspect.command(kubeconfig=str(account))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = await commands.run(*argv, *arguments, variables={"PATH": path, **environment})
    assert done.code == 0, done.errors
    return done.output
