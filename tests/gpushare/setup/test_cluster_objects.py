"""Promises of gpushare.setup.cluster_objects, and of installed_objects below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpushare.manifests import Pod
from gpushare.setup import cluster_objects
from gpushare.setup.core.installed_objects import EXTENDER, PLUGIN, bypasses_extender, scheduler_faults
from tests.gpushare.kube.scripted_api import Answer, Call, ScriptedApi, listen
from tests.servers import kubeconfig

DEPLOYMENT = {"spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
DAEMON_SET = {"status": {"desiredNumberScheduled": 2, "numberReady": 2}}
NODE = {"metadata": {"name": "n"}, "status": {"capacity": {"aliyun.com/gpu-mem": "14"}}}
INSTALL = "kubectl apply -k clusters/deploy/base  # once your images are set there: clusters/deploy/README.md"
LOOK = "kubectl -n kube-system describe {0}; kubectl -n kube-system logs {0}"
LABEL = "kubectl get nodes -L gpushare  # then, for each NODE that has cards: kubectl label node NODE gpushare=true"
ZERO = f"deployment {EXTENDER} is scaled to 0: no pod that waits gets a card"


@pytest.mark.parametrize(
    ("deployment", "daemon_set", "nodes", "faults"),
    [
        (DEPLOYMENT, DAEMON_SET, [{"metadata": {"name": "m"}}, NODE], []),
        (None, DAEMON_SET, [NODE], [(f"deployment {EXTENDER} is not in kube-system", INSTALL)]),
        (
            {"spec": {"replicas": 0}}, DAEMON_SET, [NODE],
            [(ZERO, f"kubectl -n kube-system scale deployment/{EXTENDER} --replicas=1")],
        ),
        (DEPLOYMENT, None, [NODE], [(f"daemonset {PLUGIN} is not in kube-system", INSTALL)]),
        (
            DEPLOYMENT | {"status": None}, DAEMON_SET, [NODE],
            [(f"deployment {EXTENDER}: 0 of 1 pods are ready", LOOK.format(f"deployment/{EXTENDER}"))],
        ),
        (
            DEPLOYMENT, {"status": DAEMON_SET["status"] | {"numberReady": 1}}, [NODE],
            [(f"daemonset {PLUGIN}: 1 of 2 pods are ready", LOOK.format(f"daemonset/{PLUGIN}"))],
        ),
        (
            DEPLOYMENT, {"status": {"desiredNumberScheduled": 0}}, [],
            [(f"daemonset {PLUGIN}: no node has the label gpushare=true", LABEL)],
        ),
        (
            DEPLOYMENT, DAEMON_SET,
            [{"status": {"capacity": one}} for one in ({"aliyun.com/gpu-mem": "0"}, {"aliyun.com/gpu-mem": 0}, {"cpu": "8"})],
            [("no node has aliyun.com/gpu-mem", f"kubectl -n kube-system logs daemonset/{PLUGIN}")],
        ),
    ],
)  # fmt: skip
async def test_what_a_cluster_lacks_is_named(
    deployment: Any, daemon_set: Any, nodes: list[Any], faults: list[tuple[str, str]], tmp_path: Path
) -> None:
    """The cluster of a kubeconfig is asked for extender, plugin, nodes and pods; what is missing has a line and a command."""
    objects = {f"deployments/{EXTENDER}": deployment, f"daemonsets/{PLUGIN}": daemon_set}
    items = {"/api/v1/nodes": nodes, "/api/v1/pods": [msgspec.to_builtins(notebook("a", "jupyterhub-user-scheduler"))]}

    def respond(call: Call) -> Answer:
        assert call.method == "GET"
        if call.path in items:
            return Answer({"kind": "List", "metadata": {}, "items": items[call.path]})
        found = objects[call.path.removeprefix("/apis/apps/v1/namespaces/kube-system/")]
        return Answer({"kind": "Status", "message": "not found", "code": 404}, 404) if found is None else Answer(found)

    async with listen(ScriptedApi(respond)) as url:
        *found, past = await cluster_objects.look(kubeconfig(tmp_path, url), None)

    assert [(fault.what, fault.fix) for fault in found] == faults
    assert past.what.startswith("pod hub/a shares a card")


def notebook(name: str, scheduler: str, **spec: Any) -> Pod:
    """A pod of JupyterHub that shares a card."""
    limits = {"resources": {"limits": {"aliyun.com/gpu-mem": "2"}}}
    pod = {"metadata": {"name": name, "namespace": "hub"}, "spec": {"schedulerName": scheduler, "containers": [limits]}}
    return msgspec.convert({**pod, **spec}, Pod)


def test_jupyterhubs_own_scheduler_is_a_fault() -> None:
    """The chart's user scheduler binds pods past the extender; pods without cards, of others, and ended ones are fine."""
    fine = [
        notebook("by-profile", "default-scheduler"),
        notebook("second", "gpushare-scheduler"),
        notebook("of-a-user", "site-scheduler"),
        notebook("over", "jupyterhub-user-scheduler", status={"phase": "Succeeded"}),
        notebook("plain", "jupyterhub-user-scheduler", spec={"schedulerName": "jupyterhub-user-scheduler"}),
    ]
    past = [notebook(f"jupyter-{name}", "jupyterhub-user-scheduler") for name in ("ada", "bob")]

    assert not any(map(bypasses_extender, fine))
    assert all(map(bypasses_extender, past))
    assert scheduler_faults([]) == []
    assert [str(fault) for fault in scheduler_faults(past)] == [
        "pod hub/jupyter-ada shares a card and has JupyterHub's scheduler jupyterhub-user-scheduler, which does not ask the "
        "extender (pods such as this: 2)\n"
        "  fix: name default-scheduler as scheduler_name of the profile, or gpushare-scheduler (docs/install/jupyterhub.md)"
    ]
