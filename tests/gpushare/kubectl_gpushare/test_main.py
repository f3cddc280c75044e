"""Promises of the program: streams, exit codes, what is read, and what a caller with few rights gets."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpushare.cli.answer_forms import exit_code
from gpushare.kubectl_gpushare import gpushare_arguments
from gpushare.kubectl_gpushare.main import run
from tests.gpushare.kubectl_gpushare.small_cluster import Object, node, pod
from tests.servers import StubApi, kubeconfig, serve, status

DEPLOYMENT = """
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  template:
    spec:
      containers: [{name: c, resources: {limits: {aliyun.com/gpu-mem: 4}}}]
"""


async def ran(api: Any, folder: Path, *words: str, given: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a run against that server."""
    out, err = io.StringIO(), io.StringIO()
    async with serve(api) as url:
        asked = gpushare_arguments.parse("kubectl-gpushare", words)
        environment = {"KUBECONFIG": kubeconfig(folder, url)}
        program = partial(run, asked, environment, io.StringIO(given), out, err)
        code = await asyncio.to_thread(exit_code, program, err)
    return code, out.getvalue(), err.getvalue()


def no_right(*paths: str) -> Callable[[str, str], Any]:
    """The server's refusal of these paths, in the authorizer's words."""
    return lambda method, path: status(403, f'User "u" cannot list {path}') if path in paths else None


def deployment() -> StubApi:
    """A cluster with a Deployment, its ReplicaSet, one that is like it in name, and a quota's refusal of that one."""
    meta = {"namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"}
    rest = {"spec": {"replicas": 1}, "status": {"replicas": 1}}
    web = {"metadata": meta | {"name": "web", "uid": "d"}, **rest}
    ours = {"metadata": meta | {"name": "web-1", "uid": "r", "ownerReferences": [{"uid": "d"}]}, **rest}
    other = {"metadata": meta | {"name": "web-shop-1", "uid": "s"}}
    event = {
        "metadata": {"name": "e", "namespace": "team"},
        "involvedObject": {"kind": "ReplicaSet", "name": "web-shop-1", "uid": "s"},
        "reason": "FailedCreate",
        "message": "exceeded quota: gpu",
        "lastTimestamp": "2026-01-01T00:00:01Z",
    }
    api = StubApi(nodes=[node()], events=[event])
    api.items |= {"deployments": [web], "replicasets": [ours, other]}
    return api


def unreadable(name: str, **spec: Any) -> Object:
    """A pod of which a number is a text."""
    return pod(name, **spec) | {"spec": pod(name, **spec)["spec"] | {"priority": "high"}}


UNREADABLE = "pod team/odd cannot be read, so node a gets no pods until it is gone: Expected `int | null`, got `str`"


async def test_a_node_with_an_unreadable_pod_has_no_room(tmp_path: Path) -> None:
    """As the extender has it; each command names the pod, and those that judge nodes give it as the reason."""
    api = StubApi(nodes=[node()], pods=[pod(), pod("kept", 4, "a", 0), unreadable("odd", on="a"), unreadable("waits")])
    code, out, err = await ran(api, tmp_path, "explain", "p", "-n", "team")
    assert (code, out.count("a pod on the node cannot be read, so it is not known")) == (0, 2)
    assert "unreadable-pod: a pod of the node cannot be read" in out
    assert f"      {UNREADABLE}" in out
    assert err.startswith(f"warning: {UNREADABLE}")
    assert "\nwarning: pod team/waits cannot be read: Expected" in err

    code, out, err = await ran(api, tmp_path, "simulate", "--admission=false", "-f", "-", given=DEPLOYMENT)
    assert "Placed:         0 of 4\nFit until full: 0\n" in out
    assert f"      {UNREADABLE}" in out
    assert f"warning: {UNREADABLE}" in err

    code, out, err = await ran(api, tmp_path, "doctor")
    assert code == 3
    assert f"{UNREADABLE} - at `$.spec.priority`\n  → kubectl get -o yaml pod/odd -n team\n" in out
    assert f"warning: {UNREADABLE}" in (await ran(api, tmp_path, "top"))[2]


async def test_a_pod_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """By the command that was asked about it, or about what makes it; others go on."""
    odd = pod("odd", 4, "a", 0) | {"spec": pod("odd", 4, "a", 0)["spec"] | {"tolerations": "none"}}
    odd["metadata"]["ownerReferences"] = [{"uid": "r"}]
    api = deployment()
    api.pods.append(odd)
    answers = [await ran(api, tmp_path, "explain", name, "-n", "team") for name in ("odd", "web")]
    api.items["jobs"] = [{"metadata": {"name": "job", "namespace": "team"}, "spec": "none"}]
    job = await ran(api, tmp_path, "explain", "job", "-n", "team")

    assert [(code, out, err[:48]) for code, out, err in answers] == [
        (1, "", "error: pod team/odd cannot be read: Expected `ar")
    ] * 2
    assert job[0] == 1
    assert job[2].startswith("error: job team/job cannot be read: Expected `object")
    assert "cannot be read" not in "".join((await ran(api, tmp_path, "doctor"))[1:])


async def test_a_deployment_is_explained_by_its_pods(tmp_path: Path) -> None:
    """By its name, with its type or without; what is reported of another of a name like it is not its own."""
    api = deployment()
    api.pods.append(pod("web-1-x", 4, "a", 0))
    api.pods[0]["metadata"]["ownerReferences"] = [{"uid": "r"}]
    found = [
        await ran(api, tmp_path, "explain", *words, "-n", "team")
        for words in (["web"], ["deploy/web"], ["deploy", "web"])
    ]
    name = await ran(api, tmp_path, "explain", "web", "-n", "team", "-o", "name")

    assert found == [found[0]] * 3
    assert (found[0][0], found[0][2]) == (0, "")
    assert found[0][1].startswith(
        "Deployment: team/web\nState:      has all its pods: 1 of 1\nPods:       web-1-x (a)\nPod:        team/web-1-x\n"
    )
    assert "quota" not in found[0][1]
    assert name == (0, "deployment.apps/web\n", "")


async def test_a_pod_that_its_set_has_not_made_yet(tmp_path: Path) -> None:
    """A StatefulSet names its pods."""
    api = StubApi(nodes=[node()])
    api.items["statefulsets"] = [
        {"metadata": {"name": "web", "namespace": "team", "uid": "s"}, "spec": {"replicas": 1}}
    ]
    code, out, _ = await ran(api, tmp_path, "explain", "web-0", "-n", "team")

    assert (code, out) == (0, "StatefulSet: team/web\nState:       has not all its pods: 0 of 1\n")


NO_RIGHT = (
    "you may not get deployments in namespace 'team', so it is not known whether one is named 'w'{}; "
    "`kubectl auth can-i get deployments -n team` shows the right that lacks"
)


@pytest.mark.parametrize(
    ("words", "fault", "error"),
    [
        (
            "w",
            "",
            "there is no pod 'w' in namespace 'team', nor anything else of that name that makes pods; "
            "`kubectl get pods -n team` lists them",
        ),
        ("pod w", "", "there is no pod 'w' in namespace 'team'; `kubectl get pods -n team` lists them"),
        ("w", "deployments/w", NO_RIGHT.format("; there is no pod 'w'")),
        ("deploy/w", "deployments/w", NO_RIGHT.format("")),
    ],
)
async def test_what_is_not_there_is_an_error(tmp_path: Path, words: str, fault: str, error: str) -> None:
    """The exit code is 1, and the error has the type and what to do; a list that may not be read is named."""
    api = StubApi(fault=no_right(f"/apis/apps/v1/namespaces/team/{fault}"))

    assert await ran(api, tmp_path, "explain", *words.split(), "-n", "team") == (1, "", f"error: {error}\n")


async def test_rights_in_one_namespace_show_that_namespace(tmp_path: Path) -> None:
    """Each list that is hidden is named on stderr, with its meaning; cards have at most what is free beside pods that are seen."""
    api = StubApi(nodes=[node()], pods=[pod(), pod("f", 12, "a", 0)])
    hidden: list[str] = []
    free = []
    for path in (
        "/api/v1/namespaces/team/events",
        "/api/v1/pods",
        "/api/v1/namespaces/kube-system/configmaps",
        "/api/v1/nodes",
    ):
        api.fault = no_right(*hidden, path)
        hidden.append(path)
        code, out, err = await ran(api, tmp_path, "explain", "p", "-n", "team", "-o", "json")
        free.append([card["free"] for node in json.loads(out)["nodes"] for card in node["cards"]])
        assert (code, len(json.loads(out)["hidden"])) == (0, len(hidden))

    assert free == [[2, 14], [2, 14], [2, 14], []]
    assert {line.split()[1] for line in err.splitlines()} == {"nodes", "pods", "ConfigMaps", "events"}
    assert all(line.startswith("hidden: ") for line in err.splitlines())
    assert "/api/v1/namespaces/team/pods" in [call["path"] for call in api.calls]


async def test_a_manifest_is_simulated(tmp_path: Path) -> None:
    """From a file or the standard input; --check is 3 if a pod has no room."""
    api = StubApi(nodes=[node("a", 14)])
    (tmp_path / "web.yaml").write_text(DEPLOYMENT)
    words = ("simulate", "--admission=false", "-f")
    from_file = await ran(api, tmp_path, *words, str(tmp_path / "web.yaml"))
    from_input = await ran(api, tmp_path, *words, "-", "--check", given=DEPLOYMENT)
    fewer = await ran(api, tmp_path, *words, "-", "--check", "--replicas=3", "-o", "name", given=DEPLOYMENT)

    assert (from_file[0], from_input[0]) == (0, 3)
    assert from_file[1] == from_input[1]
    assert "Placed:         3 of 4" in from_file[1]
    assert fewer == (0, "node/a\n", "")
    assert not [call for call in api.calls if call["method"] != "GET"]


async def test_the_api_server_admits_the_pod_first(tmp_path: Path) -> None:
    """By a dry run without its name; defaults that it answers count."""
    api = StubApi(nodes=[node("s", 15_000, slots=2)])
    with_slot = pod(limits={"aliyun.com/gpu-slot": "1"})
    api.fault = lambda method, _: (201, with_slot) if method == "POST" else None
    code, out, _ = await ran(
        api, tmp_path, "simulate", "-f", "-", "-o", "json", given=json.dumps(pod() | {"kind": "Pod"})
    )
    (dry_run,) = [call for call in api.calls if call["method"] == "POST"]

    assert (code, json.loads(out)["workloads"][0]["placed"]) == (0, 1)
    assert (dry_run["query"], dry_run["path"]) == ("dryRun=All", "/api/v1/namespaces/team/pods")
    assert "name" not in dry_run["body"]["metadata"]


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (status(403, 'pods "x" is forbidden: exceeded quota: gpu'), "quota"),
        (status(403, "denied by a policy"), "not-created"),
        (status(422, "spec.containers is required"), "not-created"),
    ],
)
async def test_a_pod_that_the_api_server_refuses(tmp_path: Path, refusal: tuple[int, Object], kind: str) -> None:
    """None is placed, and the reason is the server's."""
    api = StubApi(nodes=[node()], fault=lambda method, _: refusal if method == "POST" else None)
    code, out, _ = await ran(api, tmp_path, "simulate", "-f", "-", "--check", "-o", "yaml", given=DEPLOYMENT)

    assert code == 3
    assert f"kind: {kind}" in out
    assert refusal[1]["message"].partition("quota")[0].strip() in out


async def test_without_the_right_to_create_a_manifest_is_as_written(tmp_path: Path) -> None:
    """This is named once, however many objects there are."""
    api = StubApi(nodes=[node()])
    api.fault = lambda method, _: status(403, 'User "u" cannot create pods') if method == "POST" else None
    code, out, err = await ran(api, tmp_path, "simulate", "-f", "-", given=f"{DEPLOYMENT}---{DEPLOYMENT}")

    assert (code, out.count("Placed:         4 of 4"), out.count("Placed:         2 of 4")) == (0, 1, 1)
    assert err.startswith("hidden: admission (you may not create pods)")
    assert err.count("\n") == 1
    api.fault = lambda method, _: status(404, "no such namespace") if method == "POST" else None
    unborn = await ran(api, tmp_path, "simulate", "-f", "-", "-n", "new", given=DEPLOYMENT)
    assert (unborn[0], unborn[2]) == (
        0,
        "hidden: admission (there is no namespace 'new' yet): its defaults, policies and quotas do not count\n",
    )


async def test_a_manifest_that_makes_no_sense(tmp_path: Path) -> None:
    """The exit code is 2, and the reason is on stderr."""
    odd = "kind: Pod\nspec: {containers: 3}"
    code, out, err = await ran(StubApi(), tmp_path, "simulate", "--admission=false", "-f", "-", given=odd)

    assert (code, out, "cannot be read" in err) == (2, "", True)


async def test_a_chart_is_simulated(tmp_path: Path) -> None:
    """An object without pods is named; one that cannot be judged is named on stderr, and --check is 3 for it."""
    service, training = "kind: Service\nmetadata: {name: s}", DEPLOYMENT.replace("Deployment", "Rollout")
    api = StubApi(nodes=[node("a")])
    words = ("simulate", "--admission=false", "--check", "-f", "-")
    chart = await ran(api, tmp_path, *words, given=f"---\n# a comment\n{service}\n---{DEPLOYMENT}")
    foreign = await ran(api, tmp_path, *words, given=f"{training}---{DEPLOYMENT}")

    assert (chart[0], chart[2]) == (0, "")
    assert "Placed:         4 of 4" in chart[1]
    assert chart[1].endswith("\n\nWithout pods: service/s\n")
    assert (foreign[0], foreign[1].count("Placed:")) == (3, 1)
    assert foreign[2].startswith("not judged: rollout/web: only its own controller knows how many pods it makes")


async def test_pods_of_a_running_deployment_count_once(tmp_path: Path) -> None:
    """Its ReplicaSets own them; without the right to list these, that is named."""
    replica_set = {"metadata": {"name": "web-1", "namespace": "team", "uid": "rs", "ownerReferences": [{"uid": "d"}]}}
    bound = pod("f", 4, "a", 0)
    bound["metadata"]["ownerReferences"] = [{"uid": "rs", "controller": True}]
    api = StubApi(nodes=[node("a", 14)], pods=[bound])
    api.items["replicasets"] = [replica_set, {"metadata": {"name": "other", "namespace": "team", "uid": "o"}}]
    running = DEPLOYMENT.replace("{name: web}", "{name: web, namespace: team, uid: d}").replace(
        "replicas: 4", "replicas: 3"
    )
    words = ("simulate", "--admission=false", "--check", "-f", "-")
    known = await ran(api, tmp_path, *words, given=running)
    api.fault = no_right("/apis/apps/v1/namespaces/team/replicasets")
    unknown = await ran(api, tmp_path, *words, given=running)

    assert (known[0], "Placed:         2 of 2" in known[1], known[2]) == (0, True, "")
    assert (unknown[0], unknown[2].startswith("hidden: ReplicaSets of team")) == (3, True)


async def test_events_of_a_namespace_or_of_all(tmp_path: Path) -> None:
    """Nothing else is read; a name selects."""
    event = {"metadata": {"name": "e", "namespace": "team"}, "involvedObject": {"kind": "Pod", "name": "p"}}
    api = StubApi(events=[event | {"reason": "GPUShareHeld", "message": "text"}])
    one = await ran(api, tmp_path, "events", "-n", "team", "-o", "name")
    all_of_them = await ran(api, tmp_path, "events", "p", "-A")
    none = await ran(api, tmp_path, "events")

    typed = [await ran(api, tmp_path, "events", f"{kind}/p", "-n", "team") for kind in ("pod", "node")]

    assert (one, none) == ((0, "pod/p\n", ""), (0, "", "No resources found\n"))
    assert "GPUShareHeld" in all_of_them[1]
    assert ["GPUShareHeld" in text for _, text, _ in typed] == [True, False]
    assert [call["path"] for call in api.calls] == [
        "/api/v1/namespaces/team/events", "/api/v1/events", "/api/v1/namespaces/default/events",
        "/api/v1/namespaces/team/events", "/api/v1/namespaces/default/events",
    ]  # fmt: skip


async def test_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    """3 with the findings, 0 without; the installed objects are looked at if they may be."""
    extender = {"metadata": {"name": "gpushare-schd-extender", "namespace": "kube-system"}, "spec": {"replicas": 1}}
    plugin = {"metadata": {"name": "gpushare-device-plugin-ds", "namespace": "kube-system"}}
    ready = {"desiredNumberScheduled": 1, "numberReady": 1}
    api = StubApi(nodes=[node("a", 14)], pods=[pod("f", 4, "a", 0)])
    missing = await ran(api, tmp_path, "doctor", "-o", "name")
    api.items["deployments"] = [extender | {"status": {"readyReplicas": 1}}]
    api.items["daemonsets"] = [plugin | {"status": ready}]
    healthy = await ran(api, tmp_path, "doctor")
    api.pods.append(pod("g", 14, "a", 0))
    over = await ran(api, tmp_path, "doctor", "-o", "json")
    api.fault = lambda _, path: status(403, 'User "u" cannot get it') if path.startswith("/apis/apps/") else None
    hidden = await ran(api, tmp_path, "doctor")

    assert missing[0] == 3
    assert "deployment gpushare-schd-extender is not in kube-system" in missing[1]
    assert healthy == (0, "good: nothing that can be seen is wrong\n", "")
    assert [one["what"] for one in json.loads(over[1])["findings"]] == ["node a: card 0 is over-booked: 18 of 14 units"]
    assert (over[0], hidden[0]) == (3, 3)
    assert hidden[2].startswith("hidden: Deployment and DaemonSet")
    # 40,000 pods are read once in each of the four runs.
    assert [call["path"] for call in api.calls].count("/api/v1/pods") == 4


async def test_no_room_is_foretold_of_nodes_that_are_hidden(tmp_path: Path) -> None:
    """1, and the right that lacks."""
    api = StubApi(nodes=[node()], fault=no_right("/api/v1/nodes"))
    code, out, err = await ran(api, tmp_path, "simulate", "--admission=false", "-f", "-", given=DEPLOYMENT)

    assert (code, out) == (1, "")
    assert "without the right to list nodes" in err


METRICS = b"""\
# TYPE gpushare_pod_used_bytes gauge
gpushare_pod_used_bytes{namespace="team",pod="f",uid="uid-f",card="0"} 1.313865728e+09
"""


async def test_top_asks_plugins_through_the_api_server(tmp_path: Path) -> None:
    """If a plugin does not answer, its values are unknown, and stderr names the reason."""
    plugins = [pod(f"plugin-{on}", 0, on) for on in "ab"]
    for one in plugins:
        one["metadata"]["labels"] = {"app.kubernetes.io/component": "device-plugin"}
    ended = node("a")
    ended["status"]["conditions"] = [{"type": "GPUShareHealthy", "status": "Unknown"}]
    api = StubApi(nodes=[ended, node("b")], pods=[*plugins, pod("f", 1, "a", 0), pod("g", 2, "b", 0)])

    async def proxying(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not scope["path"].endswith("/proxy/metrics"):
            await api(scope, receive, send)
            return
        is_there = scope["path"] == "/api/v1/namespaces/team/pods/plugin-a:99/proxy/metrics"
        await send({"type": "http.response.start", "status": 200 if is_there else 503, "headers": []})
        await send({"type": "http.response.body", "body": METRICS if is_there else b""})

    asked = (("pods", "-A"), ("nodes",), ("pods", "-n", "other"), ("node/b", "-o", "name"), ("pod", "f"))
    found = [await ran(proxying, tmp_path, "top", *words, "--metrics-port=99") for words in asked]
    rows = [line.split() for _, out, _ in found for line in out.splitlines()]

    assert [code for code, _, _ in found] == [0, 0, 0, 0, 1]
    assert rows[1:3] == [
        ["team", "f", "a", "0", "1024Mi", "1253Mi", "122%", "-"],
        ["team", "g", "b", "0", "2048Mi", "-", "-", "-"],
    ]
    assert rows[4:] == [
        ["a", "1024Mi", "1253Mi", "122%", "28672Mi", "1", "Unknown"],
        ["b", "2048Mi", "-", "-", "28672Mi", "1", "-"],
        ["node/b"],
    ]
    assert found[0][2].startswith("hidden: use on 1 node: ")
    assert found[-1][2].endswith("error: there are no pods with a shared card named f in namespace 'default'\n")


async def test_a_scheduler_that_does_not_ask_the_extender(tmp_path: Path) -> None:
    """Its last pod shows it: bound by the scheduler's event, and its card was chosen later, or not at all."""
    at = "2026-09-21T14:{}:20.500000Z"  # The card of the pods was chosen at 14:13:20.
    lines = {}
    for case, minute, card, event in (
        ("later", 12, 0, "Scheduled"),
        ("never", 12, None, "Scheduled"),
        ("before", 14, 0, "Scheduled"),
        ("by name", 12, 0, "Other"),
    ):
        bound = pod("p", 4, "a", card)
        bound["metadata"]["creationTimestamp"] = "2026-09-21T14:00:00Z"
        old = pod("old", 4, "a", 0)
        involved = {"kind": "Pod", "name": "p", "namespace": "team", "uid": "uid-p"}
        said = {"metadata": {"name": "e", "namespace": "team"}, "involvedObject": involved, "reason": event}
        said |= {"eventTime": at.format(minute), "reportingComponent": "default-scheduler"}
        _, out, _ = await ran(StubApi(nodes=[node()], pods=[bound, old], events=[said]), tmp_path, "doctor")
        lines[case] = [line for line in out.splitlines() if "without a question" in line]
    hidden = StubApi(nodes=[node()], pods=[pod("p", 4, "a", 0)], fault=no_right("/api/v1/namespaces/team/pods/p"))

    fault = (
        "scheduler default-scheduler bound team/p, its last pod with a shared card, without a question to the extender"
    )
    assert lines == {"later": [fault], "never": [fault], "before": [], "by name": []}
    assert "without a question" not in (await ran(hidden, tmp_path, "doctor"))[1]


@pytest.mark.parametrize(
    ("reason", "units", "warns"), [("Enforced", 1000, True), ("Enforced", 1024, False), ("NoHook", 1, False)]
)
async def test_a_share_below_a_context_is_a_warning(tmp_path: Path, reason: str, units: int, warns: bool) -> None:
    """On a node that limits containers, for a pod that waits, is bound, or would come; it is never a refusal."""
    limits = {"type": "GPUShareMemoryLimits", "status": "True" if reason == "Enforced" else "False", "reason": reason}
    one = node("a", 14_000, 14_000, slots=9)
    one["status"]["conditions"] = [limits]
    slot = {"aliyun.com/gpu-slot": "1"}
    waits, bound = pod("p", units, limits=slot), pod("q", units, "a", 0, limits=slot)
    api = StubApi(nodes=[node("b"), one], pods=[waits, bound])
    share = "node a limits it to its share: a CUDA context alone takes 0.4 to 0.8 GiB"
    warning = f"warning: container c books {units} MiB, and {share}\n"
    given = json.dumps({"kind": "Pod"} | waits)
    answers = [await ran(api, tmp_path, "explain", name, "-n", "team") for name in "pq"]
    answers.append(await ran(api, tmp_path, "simulate", "--admission=false", "-f", "-", given=given))

    assert [(code, warning in err, "books" in err) for code, _, err in answers] == [(0, warns, warns)] * 3
    assert "Placed:         1 of 1" in answers[2][1]
