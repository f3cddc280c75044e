"""Promises of gpushare.setup.core.scheduler_files."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.controlplane.binaries import known, minors
from gpushare.setup.core import scheduler_files
from gpushare.setup.core.faults import Fault, SetupRefusedError
from gpushare.setup.core.scheduler_files import Tls, file_faults, is_written_here, scheduler_file, scores_of

DEPLOY = Path(__file__).parents[4] / "clusters" / "deploy"
# Release → versions of KubeSchedulerConfiguration that its kube-scheduler serves, as the tags v0.19.0 to v0.36.0 have them.
SERVED = {
    **dict.fromkeys(range(19, 22), "v1beta1"),
    22: "v1beta1 v1beta2",
    **dict.fromkeys((23, 24), "v1beta2 v1beta3"),
    **dict.fromkeys(range(25, 28), "v1 v1beta2 v1beta3"),
    28: "v1 v1beta3",
    **dict.fromkeys(range(29, 37), "v1"),
}
# In the order of the file, which a person reads.
KEYS = (
    "urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "weight", "enableHTTPS", "tlsConfig", "httpTimeout",
    "nodeCacheCapable", "managedResources", "ignorable",
)  # fmt: skip
MEMORY = "aliyun.com/gpu-mem"
TLS = Tls("/etc/kubernetes/gpushare/ca.crt", "/etc/kubernetes/gpushare/tls.crt", "/etc/kubernetes/gpushare/tls.key")


@pytest.mark.parametrize("minor", range(17, 37))
def test_each_release_gets_a_version_that_it_serves(minor: int) -> None:
    """The file of each release has a version that its kube-scheduler serves, and fields of that version alone."""
    document = yaml.safe_load(scheduler_file(minor, tls=TLS))
    (extender,) = document["extenders"]

    if minor < 19:
        assert (document["kind"], document["apiVersion"]) == ("Policy", "v1")
        assert tuple(extender) == tuple(key.replace("HTTPS", "Https") for key in KEYS)
        assert extender["httpTimeout"] == 10 * 10**9
        assert set(document) == {"kind", "apiVersion", "extenders"}
    else:
        group, _, version = document["apiVersion"].partition("/")
        assert (document["kind"], group) == ("KubeSchedulerConfiguration", "kubescheduler.config.k8s.io")
        assert version in SERVED[minor].split()
        assert {*scheduler_files.versions_read(minor)} == set(SERVED[minor].split())
        assert tuple(extender) == KEYS
        assert extender["httpTimeout"] == "10s"
        assert scheduler_file(minor).startswith(
            f"# Of kube-scheduler of Kubernetes 1.{minor}, which reads it at its start; "
        )
    assert extender["tlsConfig"] == {"caFile": TLS.ca, "certFile": TLS.certificate, "keyFile": TLS.key}
    assert is_written_here(document)
    assert file_faults(document, minor, scheduler_file(minor, tls=TLS)) == []


@pytest.mark.parametrize("minor", [16, 37])
def test_an_unknown_release_is_refused(minor: int) -> None:
    """No file is guessed for a release that is not in the table."""
    with pytest.raises(SetupRefusedError) as refused:
        scheduler_file(minor)

    assert refused.value.fault == Fault(
        f"Kubernetes 1.{minor} is not known here (1.17 to 1.36)",
        "use a gpushare-setup of that release, or pass --kubernetes with a release whose file yours reads",
    )


@pytest.mark.parametrize(
    ("path", "url"),
    [("base", scheduler_files.EXTENDER_URL), ("overlays/nodeport", "http://127.0.0.1:32766/gpushare-scheduler")],
)
def test_the_manifests_have_the_same_file(path: str, url: str) -> None:
    """The files beside the manifests say what is written for a release that reads v1."""
    shipped = yaml.safe_load((DEPLOY / path / "scheduler-config.yaml").read_text())

    assert shipped == yaml.safe_load(scheduler_file(36, url))
    assert is_written_here(shipped)


@pytest.mark.parametrize(("scores", "strategy"), [("binpack", "MostAllocated"), ("spread", "LeastAllocated")])
def test_kube_scheduler_scores_nodes_by_card_memory(scores: str, strategy: str) -> None:
    """The extender is not asked to prioritize then, and a file without the strategy is a fault."""
    document, plain = yaml.safe_load(scheduler_file(22, scores=scores)), yaml.safe_load(scheduler_file(22))
    ((plugin,),) = [profile["pluginConfig"] for profile in document["profiles"]]
    of_extender = file_faults(document, 22, scheduler_file(22))

    assert plugin["args"]["scoringStrategy"] == {"type": strategy, "resources": [{"name": MEMORY, "weight": 1}]}
    assert not {"prioritizeVerb", "weight"} & {*document["extenders"][0]}
    assert scores_of(document) == scores
    assert is_written_here(document)
    assert file_faults(document, 22, scheduler_file(22, scores=scores)) == []
    by = f"NodeResourcesFit ({strategy})"
    assert file_faults(plain, 22, scheduler_file(22, scores=scores)) == [
        f"nodes are scored by the extender, and not by {by}"
    ]
    assert of_extender[-1] == f"nodes are scored by {by}, and not by the extender"
    with pytest.raises(SetupRefusedError, match=r"1\.21 cannot score nodes by card memory"):
        scheduler_file(21, scores=scores)


@pytest.mark.parametrize(
    "plugins",
    [1, [1], [{}], [{"args": 1}], [{"args": {"scoringStrategy": 1}}]]
    + [[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": kind, "resources": [{"name": name}]}}}]
       for kind, name in (("MostAllocated", "cpu"), ("RequestedToCapacityRatio", MEMORY))],
)  # fmt: skip
def test_other_scores_leave_nodes_to_the_extender(plugins: Any) -> None:
    """A profile that does not look at card memory, or in no way of ours, takes nothing from the extender."""
    assert scores_of({"profiles": [{"pluginConfig": plugins}]}) == "extender"


def test_the_policy_beside_the_manifests_is_the_same() -> None:
    """The Policy of the overlay for old clusters says what is written for Kubernetes 1.17."""
    shipped, text = (DEPLOY / "overlays/kubeadm-old/scheduler-policy.json").read_text(), scheduler_file(17)

    assert json.loads(shipped) == json.loads(text)
    assert text == f"{json.dumps(json.loads(text), indent=2)}\n"


def test_a_file_of_fewer_verbs_was_written_here() -> None:
    """An extender that only filters and binds, as the original's, is asked for nothing else."""
    document = yaml.safe_load(scheduler_file(30))
    (extender,) = document["extenders"]
    del extender["prioritizeVerb"], extender["preemptVerb"]
    assert not is_written_here(document), "weight is that of prioritize"
    del extender["weight"]

    assert is_written_here(document)


@pytest.mark.parametrize(
    "document",
    [None, [], {"extenders": 1}, {"extenders": ["a"]}, {"extenders": [{}]}, {"kind": "Policy", "extenders": [{}, {}]}],
)
def test_a_file_of_others_is_not_taken_for_ours(document: Any) -> None:
    """A file that differs from every file of ours was not written here."""
    assert not is_written_here(document)


def edited(minor: int, **changes: Any) -> dict[str, Any]:
    """The file of a release with other values of its extender."""
    document: dict[str, Any] = yaml.safe_load(scheduler_file(minor))
    document["extenders"][0].update(changes)
    return document


OTHER = {"urlPrefix": "http://127.0.0.1:9/other", "bindVerb": "bind"}
URL = scheduler_files.EXTENDER_URL
DEFAULTS = edited(30, urlPrefix=URL)
for key in ("enableHTTPS", "ignorable", "httpTimeout", "weight"):
    del DEFAULTS["extenders"][0][key]


@pytest.mark.parametrize(
    ("document", "minor", "what"),
    [
        # A person's own time-out and weight, and a version that the release still reads, stay; what is not there has its default.
        (edited(23, httpTimeout="1m", weight=10), 28, None),
        (DEFAULTS, 30, None),
        (edited(30, urlPrefix=f"{URL}/"), 30, f"urlPrefix of the extender is '{URL}/', and not '{URL}'"),
        ("text", 30, "no document of kube-scheduler"),
        (
            {"kind": "Policy"},
            30,
            "kind 'Policy', but Kubernetes 1.30 reads 'KubeSchedulerConfiguration' with extenders",
        ),
        (
            edited(20),
            28,
            "Kubernetes 1.28 does not read 'kubescheduler.config.k8s.io/v1beta1', but kubescheduler.config.k8s.io/v1, "
            "kubescheduler.config.k8s.io/v1beta3",
        ),
        (edited(30, urlPrefix="http://127.0.0.1/other"), 30, "gpushare's extender is there 0 times, and not once"),
        (edited(30, enableHttps=False), 30, "unknown field 'enableHttps' of the extender, which stops kube-scheduler"),
        (edited(30, ignorable=True), 30, "ignorable of the extender is True, and not False"),
        (edited(17, httpTimeout="10s"), 17, "httpTimeout of the extender is '10s', and no number of nanoseconds"),
        (edited(30, httpTimeout=10), 30, "httpTimeout of the extender is 10, and no text such as 10s"),
        (
            edited(30) | {"extenders": [*edited(30)["extenders"], OTHER]},
            30,
            "another extender binds too, and only one may",
        ),
        (
            edited(30) | {"clientConnection": {"qps": 5}},
            30,
            f"clientConnection is {{'qps': 5}}, and not {{'kubeconfig': '{scheduler_files.KUBECONFIG}'}}",
        ),
    ],
)
def test_each_fault_of_a_file_is_named(document: Any, minor: int, what: str | None) -> None:
    """A file with one fault has one line that names it."""
    assert file_faults(document, minor, scheduler_file(minor)) == ([] if what is None else [what])


def test_only_gpushares_entry_gets_the_originals_form() -> None:
    """The entry of another extender stays as it is."""
    other = {"urlPrefix": "http://127.0.0.1:1/other", "prioritizeVerb": "prioritize", "weight": 2}
    document = yaml.safe_load(scheduler_file(36))
    document["extenders"].insert(0, other)

    first, ours = yaml.safe_load(scheduler_files.as_original(yaml.safe_dump(document)))["extenders"]

    assert first == other
    assert "weight" not in ours
    assert ours["urlPrefix"] == scheduler_files.ORIGINAL_URL


@pytest.fixture(params=minors())
def minor(request: pytest.FixtureRequest) -> str:
    """Each minor for which kube-scheduler is built."""
    if "kube-scheduler" not in known(request.param, os.environ):
        pytest.skip(f"no kube-scheduler: `make control-plane KUBERNETES={request.param}` builds it")
    return str(request.param)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (yaml.safe_dump(edited(36, enableHttps=False)), "unknown field"),
        (scheduler_file(24), "no kind .* is registered for version"),
    ],
    ids=["a field in another case", "an old version"],
)
def test_kube_scheduler_refuses_what_check_calls_a_fault(text: str, what: str, minor: str, tmp_path: Path) -> None:
    """A field in another case, and a version that the release has removed, stop a real kube-scheduler."""
    (tmp_path / "file.yaml").write_text(text)
    argv = [str(known(minor, os.environ)["kube-scheduler"]), f"--config={tmp_path}/file.yaml", "--secure-port=0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)

    assert done.returncode == 1
    assert re.search(what, done.stderr), done.stderr
