"""The rules that judge every run refuse the writes and answers that break them, and let pass what is well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.api import exchanges
from clusters.api.exchanges import Begun, Ended, Exchange, Injected, Limited, StoodStill, Written
from clusters.kubelet.plugin_client import PluginCall
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers import UnknownError
from e2e.checkers.api_writes import foreign_stays, sound_bookings, sound_reservations, true_transitions
from e2e.checkers.extender_messages import kept_victims, right_choices, sound_messages
from e2e.checkers.history import Asked, Entry, judge
from e2e.checkers.plugin_answers import PLUGIN_RULES
from e2e.run_judge import RunJudge

Tree = dict[str, Any]
SOCKET = Path("/kubelets/n/device-plugins/p.sock")
CARDS = json.dumps(
    {"v": 1, "mode": "ids", "unit": "GiB", "cards": [{"index": 0, "uuid": "GPU-a", "units": 14, "healthy": True}]}
)
NODE: Tree = {
    "metadata": {"name": "n", "uid": "n", "annotations": {spec.NODE_CARDS: CARDS}},
    "status": {
        "capacity": {"cpu": "8", spec.RESOURCE_MEMORY: "14", spec.RESOURCE_COUNT: "1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
PROGRAMS = {"e": "extender", "p": "device_plugin"}


def pod(name: str = "x", units: int = 4, node: str | None = None, card: int | None = None, **metadata: Any) -> Tree:
    """A pod of the API."""
    made = gpu_pod(name, units, bound_to=node)
    made["metadata"] |= {"namespace": "s", "uid": name, "annotations": {"example.com/of": "another"}, **metadata}
    if card is not None:
        made["metadata"]["annotations"][spec.POD_INDEX] = str(card)
    made["status"] = {"phase": "Running" if node else "Pending"}
    return made


def wrote(old: Tree | None, new: Tree | None, user: str = "e", at: float = 1.0) -> Written:
    """A write of a pod or of a node."""
    kind = "pods" if "spec" in (new or old or {}) else "nodes"
    return Written(at, "server", user, kind, old, new)


def changed(item: Tree, *path: str, to: Any) -> Tree:
    """A copy with another value, or without it."""
    copy: Tree = json.loads(json.dumps(item))
    place = copy
    for key in path[:-1]:
        place = place.setdefault(key, {})
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return copy


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (wrote(pod(), changed(pod(), "metadata", "annotations", spec.POD_INDEX, to="0")), ""),
        (wrote(pod(), changed(pod(), "spec", "nodeName", to="n")), ""),
        (wrote(changed(pod(), "status", "nominatedNodeName", to="n"), pod()), ""),
        (wrote(NODE, changed(NODE, "status", "capacity", spec.RESOURCE_MEMORY, to="15"), "p"), ""),
        (wrote(pod(node="n"), None, "p"), ""),
        (wrote(pod(), changed(pod(), "metadata", "annotations", to={}), "k"), ""),
        (wrote(pod(), changed(pod(), "metadata", "annotations", "example.com/of", to=None)),
         "1.0 s, foreign write: s/x: the extender changed metadata.annotations.example.com/of"),
        (wrote(pod(finalizers=["a"]), pod(), "p"),
         "1.0 s, foreign write: s/x: the device_plugin changed metadata.finalizers"),
        (wrote(pod(node="m"), pod(node="n")), "1.0 s, foreign write: s/x, n: the extender changed spec.nodeName"),
        (wrote(NODE, changed(NODE, "status", "capacity", "cpu", to=None), "p"),
         "1.0 s, foreign write: n: the device_plugin changed status.capacity.cpu"),
        (wrote(NODE, changed(NODE, "status", "conditions", to=[{"type": "Ready", "status": "False"}]), "p"),
         "1.0 s, foreign write: n: the device_plugin changed status.conditions.Ready.status"),
        (wrote(None, pod()), "1.0 s, foreign write: s/x: the extender created it"),
    ],
)  # fmt: skip
def test_what_others_wrote_stays(entry: Entry, line: str) -> None:
    """A program may write entries of its own names, bind, and end a pod as its plugin; all else is a finding."""
    assert "".join(map(str, judge([entry], foreign_stays(PROGRAMS)))) == line


def asked(
    units: int = 4, at: float = 9.0, path: str = spec.FILTER, names: tuple[str, ...] = ("n",), **answer: Any
) -> Asked:
    """A question about a new pod."""
    question = {"Pod": pod("new", units), "NodeNames": list(names)}
    return Asked(at, path, question, answer or {"NodeNames": ["n"]}, begun=at)


def refused(units: int = 4, at: float = 9.0) -> Asked:
    """The node is refused."""
    return asked(units, at, NodeNames=[], FailedNodes={"n": "full"})


THERE = [wrote(None, NODE), wrote(None, pod("old", 8, "n", 0))]


@pytest.mark.parametrize(
    ("history", "line"),
    [
        ([*THERE, asked(6)], ""),
        ([*THERE, Asked(9.0, spec.FILTER, {"Pod": {}, "NodeNames": ["n"]}, {"NodeNames": ["n"]})], ""),
        ([*THERE, wrote(None, pod("late", 6, "n", 0), at=8.5), asked(6)], ""),
        ([*THERE, StoodStill(2.0, "server"), asked(7)], ""),
        ([*THERE, wrote(None, pod("by-hand", 6, "n")), asked(7)], ""),
        ([*THERE, asked(7)], "9.0 s, passed without room: n: no card has room for the 7 units of s/new"),
        ([*THERE, refused(6)], "9.0 s, refused with room: n: a card has room for the 6 units of s/new: full"),
        ([*THERE, wrote(pod("old", 8, "n", 0), changed(pod("old", 8, "n", 0), "status", "phase", to="Unknown"), at=2.0), asked(9)],
         "9.0 s, passed without room: n: no card has room for the 9 units of s/new"),
    ],
)  # fmt: skip
def test_a_filter_follows_the_api(history: list[Entry], line: str) -> None:
    """A node passes if a card has room by the API, and only then; one that has just changed is not judged."""
    assert "".join(map(str, judge(history, right_choices))) == line


def booked(*annotations: tuple[str, str]) -> Written:
    """A Binding to the node with these annotations, and with the card."""
    return wrote(pod(), pod("x", 4, "n", 0, annotations=dict([(spec.POD_INDEX, "0"), *annotations])))


def guard(**reserved: Any) -> Written:
    """A guard that reserves for the pod."""
    text = json.dumps({"v": 1, "seen": 0, "pods": {"x": {"units": 4, "cards": {"0": 4}, "by": ["e"]} | reserved}})
    lease = {"metadata": {"name": "g", "annotations": {"aliyun.com/gpushare-reservations": text}}}
    return Written(2.0, "server", "e", "leases", None, lease)


def condition(status: str, since: str) -> Tree:
    """The node with its condition."""
    return changed(NODE, "status", "conditions", to=[{"type": "H", "status": status, "lastTransitionTime": since}])


def victims(proposed: list[str], kept: list[str]) -> Asked:
    """The victims that a scheduler proposes, and those that an extender keeps."""
    question, answer = (
        {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": one} for one in part]}}} for part in (proposed, kept)
    )
    return Asked(3.0, spec.PREEMPT, question, answer)


SPLIT = {spec.POD_ALLOCATION: json.dumps({"0": {"0": 2, "1": 2}})}
PLAIN = wrote(None, pod("plain", 0, "n"))


@pytest.mark.parametrize(
    ("history", "rules"),
    [
        ([*THERE, booked((spec.POD_DEVICE_UNITS, "14"), (spec.POD_UNITS, "4"))], []),
        ([*THERE, booked((spec.POD_DEVICE_UNITS, "15"))], ["untrue booking"]),
        ([*THERE, booked(*SPLIT.items())], []),
        ([*THERE, booked((spec.POD_ALLOCATION, '{"1": {"0": 4}}'))], ["untrue booking"]),
        ([wrote(None, pod()), guard()], []),
        ([wrote(None, pod()), guard(slots=2)], ["untrue booking"]),
        ([wrote(None, pod()), guard(cards={"0": 3})], ["untrue booking"]),
        ([wrote(condition("False", "1"), condition("False", "2"), "p")], ["untrue transition"]),
        ([PLAIN, *THERE, victims(["old", "plain"], ["plain"])], []),
        ([PLAIN, *THERE, victims(["old", "plain"], ["old"])], ["victims"]),
        ([wrote(None, pod("far", 4, "m", 0)), *THERE, victims([], ["far"])], ["victims"]),
        ([*THERE, asked(7, NodeNames=[], FailedAndUnresolvableNodes={"n": "full"})], ["wrong refusal"]),
        ([*THERE, asked(15, NodeNames=[], FailedNodes={"n": "small"}, FailedAndUnresolvableNodes={})], ["wrong refusal"]),
    ],
)  # fmt: skip
def test_bookings_refusals_and_victims_are_true(history: list[Entry], rules: list[str]) -> None:
    """Annotations, guards and transitions are those of the pod and its card; a refusal and a choice of victims help."""
    users = (rule(PROGRAMS) for rule in (sound_bookings, true_transitions))
    found = judge(history, *users, sound_reservations, kept_victims, right_choices)
    assert [one.rule for one in found] == rules


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (asked(), ""),
        (asked(NodeNames=None, FailedAndUnresolvableNodes={"n": "never"}), ""),
        (asked(Error="no"), ""),
        (asked(names=("n", "m")), "m: /filter has 0 answers about it, 1 are expected"),
        (asked(FailedNodes={"n": "full"}, NodeNames=["n"]), "n: /filter has 2 answers about it, 1 are expected"),
        (asked(NodeNames=["n", "z"]), "z: /filter has 1 answers about it, 0 are expected"),
        (asked(path=spec.BIND, Error=1), "is none of Kubernetes"),
    ],
)
def test_an_answer_is_the_message_of_kubernetes(entry: Entry, text: str) -> None:
    """Each node that was asked about has one answer, in the fields of the message."""
    (found,) = (*map(str, judge([entry], sound_messages)), *([] if text else [""]))
    assert text in found


@pytest.mark.parametrize(("score", "findings"), [(10, 0), (11, 1), (-1, 1)])
def test_a_score_is_from_0_to_10(score: int, findings: int) -> None:
    """kube-scheduler multiplies a score; one beyond its bounds outweighs everything."""
    answer = [{"Host": "n", "Score": score}]
    question = {"Pod": pod(), "NodeNames": ["n"]}
    assert len(judge([Asked(1.0, spec.PRIORITIZE, question, answer)], sound_messages)) == findings


def listed(health: str) -> PluginCall:
    """A list with one id."""
    devices = [pb.Device(ID="a", health=health)]
    return PluginCall(3.0, SOCKET, "r", "ListAndWatch", None, pb.ListAndWatchResponse(devices=devices))


def registered(version: str = "v1beta1", endpoint: str = "p.sock") -> PluginCall:
    """A registration."""
    request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name="r")
    return PluginCall(3.0, SOCKET, "r", "Register", request)


def injected(*words: str) -> Injected:
    """A command to the cards of the node."""
    return Injected(2.0, SOCKET.parents[1], words)


@pytest.mark.parametrize(
    ("history", "rules"),
    [
        ([registered(endpoint="../p.sock")], ["registration"]),
        ([injected("xid", "1", "45"), listed("Unhealthy")], ["ignored Xid"]),
        ([injected("xid", "1", "45"), injected("xid", "1", "79"), listed("Unhealthy")], []),
        ([injected("xid", "1", "79"), listed("Unhealthy"), listed("Healthy"), injected("xid", "1", "13"), listed("Unhealthy")],
         ["ignored Xid"]),
    ],
)  # fmt: skip
def test_a_plugin_follows_its_protocol(history: list[Entry], rules: list[str]) -> None:
    """A registration has its version and a socket's name, and an application's Xid changes no health at any instant."""
    assert [one.rule for one in judge(history, *PLUGIN_RULES)] == rules


def test_a_case_takes_the_findings_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster's writes and its extender's answers are judged together; a bind that is under way excuses a fuller book."""
    judged = RunJudge()
    monkeypatch.setattr(exchanges, "LISTENERS", [judged.take])

    def ask(path: str, question: Mapping[str, Any], answer: Mapping[str, Any], begun: float, at: float) -> None:
        texts = json.dumps(question).encode(), json.dumps(answer).encode()
        exchanges.pass_on(Exchange(begun, at, f"POST http://x/ext{path}", texts[0], 200, texts[1]))

    exchanges.pass_on(Begun("server", "http://x/ext", {"e": "extender"}))
    for one in THERE:
        exchanges.pass_on(Written(one.at, one.server, "k", one.kind, one.old, one.new))
    no = refused(6)
    ask(spec.FILTER, no.question, no.answer, 9.0, 9.1)
    assert [one.rule for one in judged.findings()] == ["refused with room"]
    assert judged.findings() == []
    other = {**no.question, "NodeNames": ["n", "m"]}
    ask(spec.BIND, {"Node": "n", "PodUID": "other"}, {}, 8.0, 10.0)
    ask(spec.FILTER, other, {"NodeNames": [], "FailedNodes": {"n": "full"}}, 9.5, 9.6)
    assert [one.node for one in judged.findings()] == ["m"]
    book = {"nodes": [{"name": "n", "devs": [{"id": 0, "totalGPU": 14, "usedGPU": 12, "pods": [{"usedGPU": 12}]}]}]}
    for at, rules in ((9.7, []), (10.1, ["book differs"])):
        ask(spec.INSPECT, {}, book, at, at)
        assert [one.rule for one in judged.findings()] == rules


@pytest.mark.parametrize(
    ("rows", "is_other", "found"),
    [
        ({0: (0, 4096 + 409)}, False, []),
        ({}, False, []),
        ({0: (0, 15000)}, True, []),
        ({0: (0, 4096)}, False, ["x"]),
        ({0: (0, 15000)}, False, ["x"]),
        ({0: (1, 4096 + 409)}, False, ["x"]),
        ({0: (1, None)}, False, ["x"]),
    ],
)
def test_a_container_starts_with_its_own_limit(
    monkeypatch: pytest.MonkeyPatch, rows: Mapping[int, tuple[int, int | None]], is_other: bool, found: list[str]
) -> None:
    """The limit is the share and the slack of its node, to the MiB, with no guarantee, unless its pod or image names another."""
    judged = RunJudge()
    monkeypatch.setattr(exchanges, "LISTENERS", [judged.take])
    exchanges.pass_on(Begun("server", "http://x/ext", PROGRAMS, {"n": ("--memory-limit-slack=10%",)}))
    for one in (wrote(None, NODE, "k"), wrote(None, pod("x", 4, "n", 0), "k")):
        exchanges.pass_on(one)
    limits = {card: (soft, hard and hard * 2**20) for card, (soft, hard) in rows.items()}

    exchanges.pass_on(Limited(2.0, "x", "c0", {0: 15360}, limits, is_other))

    assert [one.pod.removeprefix("s/") for one in judged.findings() if one.rule == "inexact limit"] == found


def test_a_cluster_that_ended_leaves_its_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another cluster on the same port is judged by its own state; a rule that fails in itself fails no write."""
    judged = RunJudge()
    monkeypatch.setattr(exchanges, "LISTENERS", [judged.take])
    exchanges.pass_on(Begun("server", "http://x/ext", PROGRAMS))
    exchanges.pass_on(THERE[1])
    exchanges.pass_on(wrote(pod("old", 8, "n", 0), None))
    exchanges.pass_on(Ended("server"))
    exchanges.pass_on(wrote(None, NODE, "k"))
    assert [one.pod for one in judged.findings()] == ["s/old", "s/old"]
    exchanges.pass_on(wrote(None, changed(pod("odd", 1, "n"), "spec", "containers", to=[{"resources": [1]}]), "k"))
    text = json.dumps(asked().question).encode()
    exchanges.pass_on(Exchange(9.0, 9.0, f"POST http://x/ext{spec.FILTER}", text, 200, b'{"NodeNames": ["n"]}'))
    with pytest.raises(UnknownError):
        judged.findings()
    assert judged.findings() == []
