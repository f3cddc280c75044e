"""Promises of the text: each fact of a document is on a line, and tables are as kubectl prints them."""

from __future__ import annotations

import json
from typing import Any

from gpushare.extender.core.explain import MOST_NODES
from gpushare.kubectl_gpushare.core import answer_text
from gpushare.kubectl_gpushare.core.explanation import explain_pod
from gpushare.kubectl_gpushare.core.simulation import simulate
from tests.gpushare.kubectl_gpushare.small_cluster import (
    Object,
    cluster,
    event,
    node,
    of_the_original,
    offering,
    pod,
    report,
    subject,
    workload,
)


def text_of(asked: Object, *objects: Object, **more: Any) -> str:
    """The text about a pod of the cluster."""
    return answer_text.explanation_text(explain_pod(subject(asked), cluster(*objects, asked), ()), **more)


WIDE = """\
Pod:        team/p
State:      waits
Asks for:   14 units, policy binpack, priority 0
Scheduler:  Unschedulable: 0/9 nodes are available
Not judged: topology spread, volumes

Why:
  has-room: a card has room now, and the scheduler has not asked again (2 nodes: b, c)
      → wait a minute; percentageOfNodesToScore may keep the scheduler from the node
  full: the cards of the node have too little free, in sum too (1 node: a)
      Insufficient GPU Memory in one device
      → end the pods of one card, or add a node

NODE   CARD   MODEL      FREE   TOTAL   WANTED   REASON     ROOM IF ENDED            UUID
b      0      -          14     14      14       takes it   -                        -
c      0      Tesla T4   14     14      14       takes it   -                        GPU-0
a      0      Tesla T4   2      14      14       too full   team/f (6), team/g (6)   GPU-0
"""


def test_a_waiting_pod() -> None:
    """All that keeps it from its card, with the UUID of each card; what is not known is a dash."""
    asked = pod(units=14, volumes=[{"persistentVolumeClaim": {}}], topologySpreadConstraints=[{}])
    objects = (node("a", 14), of_the_original(node("b", 14)), node("c", 14), pod("f", 6, "a", 0), pod("g", 6, "a", 0))
    text = text_of(asked, *objects, wide=True)

    assert text == WIDE
    assert "NODE" not in text_of(asked, *objects, headers=False)
    assert text_of(asked, *objects).count("   takes it   -\n") == 2
    assert text_of(asked, *objects).endswith("14       too full   team/f (6), team/g (6)\n")


def test_an_unhealthy_card_says_so_before_the_rule() -> None:
    """Its node is short in sum because of it; another rule stands behind it, and alone on the healthy cards."""
    of_sum = text_of(pod(), offering(node(unhealthy="lost"), mem=14), pod("f", 12, "a", 1))
    text = text_of(pod(limits={"cpu": "9"}), node(unhealthy="lost", spec={"unschedulable": True}))

    assert "4        Insufficient aliyun.com/gpu-mem   team/f (12)\n" in of_sum
    assert "4        unhealthy                         -\n" in of_sum
    assert "unhealthy; node(s) were unschedulable   -\n" in text
    assert "4        node(s) were unschedulable              -\n" in text


def test_a_pod_on_two_cards() -> None:
    """Each card has its neighbours."""
    asked = pod("p", 4, "a", wishes={"split": "2,2"})
    asked["metadata"]["annotations"]["scheduler.framework.gpushare.allocation"] = json.dumps({"0": {"0": 2, "1": 2}})
    objects = (of_the_original(node()), pod("g", 2, "a", 0), pod("h", 2, "a", 0))
    text = text_of(asked, *objects, wide=True)

    assert text.startswith("Pod:      team/p\nState:    has card 0, 1 of node a\nAsks for: 4 units, policy binpack, ")
    assert "priority 0, split=2,2\nBound by: another extender\nStarted:  yes\n\nNODE" in text
    assert text.endswith(
        "team/g (2), team/h (2)   -\na      1      -       2      14                14      -                        -\n"
    )
    assert "\nPolicy now: without the pod it would choose card 0, 1 of this node\n" in text_of(asked, node())
    assert "SHARED" not in text_of(asked, *objects, headers=False)


BOUND = """\
Pod:        team/p
State:      has card 0 of node a
Asks for:   4 units, policy binpack, priority 0
Bound by:   the extender of gpushare, asked by a scheduler
Bound at:   2026-09-21T14:13:20Z
Started:    yes
Policy now: without the pod it would choose card 0 of this node

NODE   CARD   MODEL      HELD   FREE WITHOUT IT   TOTAL   SHARED WITH   UUID
a      0      Tesla T4   4      8                 14      team/g (6)    GPU-0
a      1      Tesla T4   0      2                 14      team/f (12)   GPU-1
"""


def test_a_bound_pod() -> None:
    """Its card, and what else is on the cards of its node."""
    assert text_of(pod("p", 4, "a", 0), node(), pod("f", 12, "a", 1), pod("g", 6, "a", 0), wide=True) == BOUND


def test_a_bound_pod_that_has_not_started() -> None:
    """The kubelet has not reported, or reports what contradicts the phase; a node without models shows dashes."""
    bare = of_the_original(node("a", 14))
    new, lingers = pod("p", 4, "a", 0), pod("p", 4, "a", 0)
    new["status"] = {"phase": "Pending"}
    lingers["status"] = {"phase": "Failed", "containerStatuses": [{"state": {"running": {}}}]}

    assert "Started:    no; the kubelet has not reported" in text_of(new, bare)
    assert "a      0      -       4" in text_of(new, bare, wide=True)
    assert (
        "Started:    its phase has ended, but its status still shows running containers, so it keeps its card\n"
    ) in text_of(lingers, bare)


def test_a_bound_pod_that_the_hook_keeps_from_starting() -> None:
    """The hook is named, and what helps; a container that waits for another reason is none of it."""
    one, message = (
        pod("p", 4, "a", 0),
        "error running hook #0: stderr: failed to set memory limits for gpu: Not Supported",
    )
    failed = {"name": "c", "state": {"waiting": {"reason": "RunContainerError", "message": message}}}
    one["status"] = {"phase": "Pending", "containerStatuses": [{"name": "b", "state": {"waiting": {}}}, failed]}

    text = text_of(one, node())
    assert "container c is kept from starting by NVIDIA's hook apply-cuda-memory-limits: delete the pod" in text


def test_a_bound_pod_without_a_card() -> None:
    """The text has the reason; without its node there is no table."""
    text = text_of(pod("p", 4, "gone"))

    assert "State:    has no card of node gone" in text
    assert "Bound by: a scheduler that is not known; no annotation names a card" in text
    assert text.endswith("Started:  yes\n")
    absent = text_of(pod("p", 4, "a", 9), node())
    assert "\nProblem:    annotations name card 9, but node a has the cards [0, 1]: booked on none\n" in absent


def test_a_bound_pod_with_a_wish_that_cannot_be_read() -> None:
    """The cause is shown, and no fact that is not known."""
    text = text_of(pod("p", 4, "a", 0, wishes={"x": "y"}), node())

    assert "bad-wish" in text
    assert "Started" not in text
    assert "Scheduler" not in text_of(pod(wishes={"x": "y"}), node())


def test_a_pod_that_has_ended() -> None:
    """One line has that."""
    done = pod("p", 4, "a", 0)
    done["status"]["phase"] = "Succeeded"

    turned_away = pod("p", 4, "a") | {
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no card"}
    }

    assert text_of(done, node()) == "Pod:   team/p\nState: has ended; its cards are free\n"
    assert "State: has failed (UnexpectedAdmissionError: no card); its cards are free\n" in text_of(turned_away, node())


def test_events_are_shown_last() -> None:
    """With the time and the number."""
    answer = explain_pod(subject(pod()), cluster(), [event("GPUShareHeld", "text", when="2026-01-01T00:00:00Z")])

    assert answer_text.explanation_text(answer).endswith(
        "LAST SEEN              REASON         COUNT   MESSAGE\n2026-01-01T00:00:00Z   GPUShareHeld   1       text\n"
    )
    never = explain_pod(subject(pod()), cluster(), [event("GPUShareHeld", "text")])
    assert answer_text.explanation_text(never).endswith("\n-           GPUShareHeld   1       text\n")


def test_many_nodes_are_cut() -> None:
    """The rest is counted; -o wide shows all that are described, with the UUIDs of the cards."""
    answer = explain_pod(subject(pod(units=0)), cluster(), ())
    many = (node(f"n{at:03}", 14) for at in range(MOST_NODES + 1))
    few, all_of_them = text_of(pod(), *many), text_of(pod(), *(node(f"n{at}", 14) for at in range(25)), wide=True)

    assert few.endswith(f"({MOST_NODES + 1 - 20} more nodes; -o wide shows up to {MOST_NODES})\n")
    assert "25 nodes: n0, n1, n10, …" in all_of_them
    assert all_of_them.count("GPU-0") == 25
    assert answer_text.explanation_text(answer).endswith("Scheduler: Unschedulable: 0/9 nodes are available\n")
    left = {"pod": answer["pod"], "state": "waiting", "nodesLeftOut": 3}
    assert answer_text.explanation_text(left, wide=True).endswith("(3 more nodes)\n")


OWNER = {"kind": "Deployment", "namespace": "team", "name": "web", "wanted": 2, "there": 1, "ended": ""}


def test_a_maker_of_pods_has_its_own_lines() -> None:
    """How many pods it has, and where each is; then the lines about one of them."""
    pods = [{"name": f"web-{at}", "state": "waiting", "node": "" if at else "a"} for at in range(22)]
    one = explain_pod(subject(pod("p", 4, "a")), cluster(node()), ())
    text = answer_text.explanation_text({**one, "owner": OWNER, "pods": pods})
    ended = answer_text.explanation_text({"owner": OWNER | {"ended": "Complete"}, "pods": []})

    assert text.startswith(
        "Deployment: team/web\nState:      has not all its pods: 1 of 2\nPods:       web-0 (a), web-1 (waiting), "
    )
    assert ", and 2 more\nPod:        team/p\n" in text
    assert ended == "Deployment: team/web\nState:      has ended: Complete\n"
    # As kubectl has names, so that it can be asked about again.
    names = [answer_text.explanation_names(answer) for answer in (one, {"owner": OWNER})]
    assert names == ["pod/p\n", "deployment.apps/web\n"]


SIMULATED = """\
Object:         pod/p
Asks for:       4 units, policy binpack, priority 0
Placed:         3 of 4
Fit until full: 3

Why:
  full: the cards of the node have too little free, in sum too
      Insufficient GPU Memory in one device
      → end the pods of one card, or add a node

MODEL      UNIT   CARDS   FIT   LARGEST POD
Tesla T4   GiB    1       3     14

NODE   CARD   PODS
a      0      3
"""


def test_a_simulation() -> None:
    """Where pods land, how many fit, the largest pod, and why no more."""
    answer = {"workloads": [simulate(workload(4), subject(pod()), cluster(node("a", 14)))]}

    assert answer_text.simulation_text(answer) == SIMULATED
    passed_over = answer_text.simulation_text(answer | {"passedOver": ["service/s", "secret/s"]})
    assert passed_over == f"{SIMULATED}\nWithout pods: service/s, secret/s\n"
    assert answer_text.simulation_names(answer) == "node/a\n"


def test_several_objects_are_simulated() -> None:
    """A block for each; one that cannot be read has no cards, and rules that are not judged are named."""
    state = cluster(node("a", 4), node("b", 4))
    free = pod(volumes=[{"persistentVolumeClaim": {}}], topologySpreadConstraints=[{}])
    answer = {
        "workloads": [
            simulate(workload(2), subject(free), state),
            simulate(workload(1, "pod/q"), subject(pod(wishes={"x": "y"})), state),
        ]
    }
    first, second = answer_text.simulation_text(answer, headers=False).split("\n\nObject:")
    lines = first.splitlines()

    assert lines[4] == "Not judged:     topology spread, volumes"
    assert [line.split() for line in lines[5:]] == [
        [], ["Tesla", "T4", "GiB", "2", "2", "4"], [], ["a", "0", "1"], ["b", "0", "1"],
    ]  # fmt: skip
    assert second.startswith("         pod/q\nPlaced:         0 of 1\nFit until full: 0\n\nWhy:\n  bad-wish: ")
    assert answer_text.simulation_names(answer) == "node/a\nnode/b\n"


def test_many_places_are_cut() -> None:
    """The rest is counted; a node without models shows dashes, and a pod without cards lands on none."""
    nodes = [of_the_original(node(f"n{at:02}", 4)) for at in range(22)]
    answer = {"workloads": [simulate(workload(22), subject(pod()), cluster(*nodes))]}
    bare = {"workloads": [simulate(workload(1), subject(pod(units=0)), cluster(*nodes))]}

    assert answer_text.simulation_text(answer).endswith("(2 more places; -o wide shows them)\n")
    assert answer_text.simulation_text(answer, wide=True, headers=False).endswith("n21   0   1\n")
    assert "-       -      22      22    4" in answer_text.simulation_text(answer)
    assert answer_text.simulation_text(bare).endswith("n00    -      1\n")


def test_messages_of_others_do_not_steer_the_terminal() -> None:
    """Neither in a fact nor in a cause."""
    absent = {"owner": OWNER, "pods": [], "causes": [{"kind": "x", "means": "y", "do": "z", "message": "a\x1b[2Jb\nc"}]}
    asked = pod(conditions=report("x\x1by\nz"))

    assert "      a [2Jb c\n" in answer_text.explanation_text(absent)
    assert "Unschedulable: x y z\n" in text_of(asked, node())


def test_a_pod_of_a_slot_alone_has_no_card() -> None:
    """It asks for none, and the next line is the reason; a node in slots mode takes none such."""
    asked = pod(units=0, limits={"aliyun.com/gpu-slot": "1"})
    bound = asked | {"spec": asked["spec"] | {"nodeName": "a"}}
    text = text_of(bound, node())
    slots = simulate(workload(1), subject(asked), cluster(node("a", 15_079, slots=8)))

    assert "State:    is on node a, and asks for no card memory\nAsks for: no card memory, policy " in text
    assert "\nWhy:\n  slot-missing: " in text
    assert (slots["fits"], [cause["kind"] for cause in slots["causes"]]) == (0, ["slot-missing"])
