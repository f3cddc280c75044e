"""The preflight of a cluster: each fault is a line, what cannot be seen is unknown, and a sound cluster is ok."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.api.resources import (
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from clusters.provider import Cluster
from e2e import spec
from e2e.commands import python
from e2e.onsite.tenancy import NAMESPACE
from e2e.report.verdict_table import PreflightLine
from e2e.site.preflight import LISTED, RULES, ClusterPicture, Right, judge, rights_of_a_validation
from e2e.site.preflight_lines import is_wrong
from e2e.tenant import applied

_ALL_RIGHTS: Final[Mapping[Right, bool | str]] = dict.fromkeys(rights_of_a_validation(), True)
_RIGHTS: Final = Path(__file__).parent / "preflight-rbac.yaml"


def node(
    name: str = "a1", *, labels: Mapping[str, str] | None = None, capacity: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A sound node with two cards of the original's plugin, unless something about it is changed."""
    metadata = {"name": name, "labels": {"gpushare": "true"} if labels is None else labels}
    two_cards = {spec.RESOURCE_MEMORY: "28", spec.RESOURCE_COUNT: "2"}
    return {"metadata": metadata, "status": {"capacity": capacity or two_cards}}


def pod(name: str, *, on: str = "a1", component: str = "", **container: Any) -> dict[str, Any]:
    """A pod of kube-system with one container."""
    return {
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"component": component}},
        "spec": {"nodeName": on, "containers": [{"name": "it", "image": "it:1", **container}]},
        "status": {"phase": "Running"},
    }


_NODES: Final = [node(), node("cp", labels={"node-role.kubernetes.io/control-plane": ""}, capacity={"cpu": "4"})]
_PODS: Final = [
    pod("plugin-a1", component="gpushare-device-plugin"),
    pod("extender", on="cp", component="gpushare-schd-extender"),
]
_BASELINE: Final = {"name": "kube-system", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}
_POLICIES: Final = [{"metadata": {"name": "gpushare-x"}}]


def lines(
    changes: Mapping[Resource, Any] | None = None,
    *,
    version: str = "v1.36.0",
    rights: Mapping[Right, bool | str] = _ALL_RIGHTS,
) -> list[PreflightLine]:
    """The lines of a sound cluster with gpushare, except for ``changes`` to what is listed."""
    listed: dict[Resource, Any] = {
        NAMESPACES: [{"metadata": {"name": "kube-system"}}],
        NODES: _NODES,
        PODS: _PODS,
        VALIDATING_ADMISSION_POLICIES: _POLICIES,
        VALIDATING_ADMISSION_POLICY_BINDINGS: [{"spec": {"policyName": "gpushare-x"}}],
        **(changes or {}),
    }
    return judge(ClusterPicture(version, listed, rights, frozenset({"gpushare-x"})))


def bad(found: list[PreflightLine]) -> list[tuple[str, str, str]]:
    """Name, subject and judgement of what is not ok; each of them has what to do."""
    worse = [line for line in found if line.judgement != "ok"]
    assert all(line.text and line.todo for line in worse)
    return [(line.name, line.subject, line.judgement) for line in worse]


def test_a_sound_cluster_is_ok() -> None:
    """Every line is ok, and each rule has one."""
    found = lines()
    assert bad(found) == []
    assert {line.name for line in found} == set(RULES)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {NODES: [node(capacity={spec.RESOURCE_MEMORY: "28", "nvidia.com/gpu": "2"})]},
            ("other plugins", "node a1", "wrong"),
        ),
        (
            {PODS: [*_PODS, pod("other", image="nvcr.io/nvidia/k8s-device-plugin:v0.17.0")]},
            ("other plugins", "node a1", "wrong"),
        ),
        ({VALIDATING_ADMISSION_POLICIES: []}, ("admission policies", "cluster", "unknown")),
        ({VALIDATING_ADMISSION_POLICY_BINDINGS: []}, ("admission policies", "cluster", "wrong")),
        ({NAMESPACES: [{"metadata": _BASELINE}]}, ("pod security", "namespace kube-system", "wrong")),
        # A rule that an object of no known form ends is not judged, for that node alone if it is one.
        ({VALIDATING_ADMISSION_POLICIES: [{}]}, ("admission policies", "cluster", "unknown")),
        (
            {PODS: [*_PODS, {"metadata": {"name": "odd"}, "spec": {"nodeName": "a1"}}]},
            ("other plugins", "node a1", "unknown"),
        ),
    ],
)
def test_a_fault_of_a_cluster_is_its_line(changes: Any, expected: tuple[str, str, str]) -> None:
    """Its line names the object; a sound cluster of other nodes has no other line that is wrong."""
    found = bad(lines(changes))

    assert expected in found
    assert [one for one in found if one[2] == "wrong" and one != expected] == []


@pytest.mark.parametrize(("version", "judgement"), [("v1.24.1", "wrong"), ("x", "unknown")])
def test_an_api_server_that_is_too_old_is_wrong(version: str, judgement: str) -> None:
    """One of a version that cannot be read is unknown."""
    assert ("API server", "cluster", judgement) in bad(lines(version=version))


def test_before_an_installation_nothing_is_wrong() -> None:
    """A part that is not installed yet is unknown, with what to do; the exit code stays 0."""
    found = lines({NODES: [node(capacity={"cpu": "4"})], PODS: [], VALIDATING_ADMISSION_POLICIES: []})
    assert bad(found) == [("admission policies", "cluster", "unknown")]
    assert not is_wrong(found)


def test_a_right_that_lacks_is_wrong() -> None:
    """It is named; no answer makes it unknown."""
    lacking = Right("create", "pods", namespace=NAMESPACE), Right("list", "pods")
    rights = {**_ALL_RIGHTS, **dict.fromkeys(lacking, False), Right("list", "events", namespace=NAMESPACE): "no answer"}

    assert bad(lines(rights=rights)) == [
        ("rights", "pods of all namespaces", "wrong"),
        ("rights", "pods", "wrong"),
        ("rights", "events", "unknown"),
    ]


def test_what_may_not_be_listed_is_unknown() -> None:
    """Without any right no line is wrong, and none is missing."""
    found = lines(dict.fromkeys(LISTED, "cannot list resource"))
    assert not is_wrong(found)
    assert {line.name for line in found if line.judgement == "unknown"} == RULES.keys() - {"API server", "rights"}


@pytest.mark.needs("policies")
async def test_preflight_of_a_running_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """With the rights of its file it sees everything, and finds only what a validation may not do with them."""
    # As kubectl does it: a file of $KUBECONFIG that is not there is passed over.
    named = os.pathsep.join([str(tmp_path / "none"), str(await applied(cluster, _RIGHTS))])
    code, output, errors = await python("-m", "e2e", "preflight", "-o", "json", variables={"KUBECONFIG": named})
    found = [PreflightLine(**line) for line in json.loads(output)["lines"]]
    assert code == 3, errors
    assert {line.name for line in found if line.judgement == "wrong"} == {"rights"}
    assert not [line for line in found if "cannot be listed" in line.text]
    assert {line.judgement for line in found if line.name == "admission policies"} == {"ok"}
