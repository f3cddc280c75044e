"""Promises of gpushare.deviceplugin.core.usage."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.usage import (
    MIB,
    READINGS,
    CardUse,
    Overuse,
    PodOnCard,
    ProcessUse,
    ShownOveruse,
    Streak,
    bookings,
    judge,
    keep_because,
    on_other_cards,
    pods_in_cgroups,
    show,
    streaks,
    sum_up,
)
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.limits import CardOveruse
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

CARDS = NodeCards(
    1, "ids", "GiB", "boot", (CardFacts(0, "GPU-0", "T4", 15079, 14), CardFacts(1, "GPU-1", "T4", 15079, 14))
)

A = ObjectMeta(name="a", namespace="team", uid="uid-a")
B = ObjectMeta(name="b", namespace="team", uid="uid-b")
PODS = {"uid-a": A, "uid-b": B}
ON = PodOnCard("team", "a", "uid-a", 0)
EXACT = Tolerance()


def pod(units: object = 2, phase: str = "Running", **annotations: str) -> KeptPod:
    """A pod that the extender bound."""
    return bound_pod("uid-a", units, None, phase, namespace="team", name="a", **annotations)


def on_card(index: object) -> dict[str, str]:
    """The annotation of the card."""
    return {"ALIYUN_COM_GPU_MEM_IDX": str(index)}


def test_a_booking_is_in_bytes_of_the_nodes_unit() -> None:
    """Units times the unit, whatever it is; a pod of several cards booked of each."""
    many = {"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":3}}'}
    zero, one = ON, dataclasses.replace(ON, index=1)

    for unit, mib in (("GiB", 1024), ("256MiB", 256)):
        cards = msgspec.structs.replace(CARDS, unit=unit)
        assert bookings([pod(2, **on_card(1))], cards) == (CardUse(one, 2 * mib * MIB),)
        assert bookings([pod(4, **many)], cards) == (CardUse(zero, mib * MIB), CardUse(one, 3 * mib * MIB))


def test_pods_without_a_valid_card_booked_nothing_that_we_know() -> None:
    """A pod without a readable card and amount booked nothing, nor did one in an unreadable unit."""
    pods = [pod(), pod(**on_card("x")), pod("1.5", **on_card(0))]

    assert bookings(pods, CARDS) == ()
    assert bookings([pod(**on_card(0))], msgspec.structs.replace(CARDS, unit="?")) == ()


ON_1, B_ON = dataclasses.replace(ON, index=1), PodOnCard("team", "b", "uid-b", 0)
KNOWN, UNKNOWN = ProcessUse(0, "uid-a", 10), ProcessUse(0, "uid-a", None)
# Processes, bookings, cards that do not answer, and what each pod booked and uses.
SUMS: dict[str, tuple[list[ProcessUse], list[CardUse], set[int], dict[PodOnCard, tuple[int, int | None]]]] = {
    "several processes of a pod, beside an idle one": (
        [ProcessUse(0, "uid-a", 100), ProcessUse(0, "uid-a", 50), ProcessUse(1, "uid-a", 7)],
        [CardUse(ON, 120), CardUse(B_ON, 5)], set(), {ON: (120, 150 * MIB), B_ON: (5, 0), ON_1: (0, 7 * MIB)},
    ),
    "no process has a figure": ([UNKNOWN], [CardUse(ON, 1)], set(), {ON: (1, None)}),
    "one has: it is at least that": ([UNKNOWN, KNOWN], [CardUse(ON, 1)], set(), {ON: (1, 10 * MIB)}),
    "whichever is listed first": ([KNOWN, UNKNOWN], [CardUse(ON, 1)], set(), {ON: (1, 10 * MIB)}),
    "a lost or slow card is not idle": (
        [ProcessUse(1, "uid-a", 3)], [CardUse(ON, 1)], {0}, {ON: (1, None), ON_1: (0, 3 * MIB)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("processes", "booked", "silent", "expected"), SUMS.values(), ids=SUMS.keys())
def test_processes_are_summed_by_pod_and_card(
    processes: list[ProcessUse], booked: list[CardUse], silent: set[int], expected: dict[PodOnCard, Any]
) -> None:
    """The use stands beside the booking; an unknown amount is not 0."""
    seen = sum_up(processes, booked, PODS, frozenset(silent))

    assert {use.on: (use.booked, use.used) for use in seen.uses} == expected
    assert seen.silent == silent


def test_a_process_of_no_pod_is_unaccounted() -> None:
    """A service of the host, and a pod of another node (a stale control group)."""
    unknown = [ProcessUse(1, None, None)] * 2
    seen = sum_up([ProcessUse(0, None, 30), ProcessUse(0, "stranger", 12), *unknown], [], PODS)

    assert (seen.uses, seen.unaccounted, seen.without_figure) == ((), {0: 42 * MIB, 1: None}, {1: 2})


def test_a_tolerance_is_a_share_or_an_amount() -> None:
    """At the limit is within; the use above a booking is never negative, nor is an unknown one."""
    assert [look(Overuse(), used, 0, Tolerance(10), 0).begun == () for used in (1100, 1101)] == [True, False]
    assert [Tolerance(10).limit(1000), Tolerance(0, 256).limit(1000), EXACT.limit(1000)] == [1100, 1256, 1000]
    assert [CardUse(ON, 5, used).over for used in (3, 8, None)] == [0, 3, 0]


def look(before: Any, used: int | None, now: float, tolerance: Tolerance = EXACT, after: float = 60) -> Any:
    """One look at a pod that booked 1000."""
    return judge(before, [CardUse(ON, 1000, used)], now, tolerance, after)


def test_overuse_and_its_end_are_reported_once_each() -> None:
    """Above since 10, reported with the use of that moment at 70, silent at 90, over at 100; a new one starts over."""
    seen, before = [], Overuse()
    for used, now in ((1001, 10), (2000, 69), (1500, 70), (1500, 90), (1000, 100), (1001, 110)):
        before = look(before, used, now)
        seen.append((before.begun, before.ended))

    report, end = ((CardUse(ON, 1000, 1500),), ()), ((), (CardUse(ON, 1000, 1000),))
    assert seen == [((), ()), ((), ()), report, ((), ()), end, ((), ())]
    assert (before.since, before.reported) == ({ON: 110.0}, frozenset())
    told = look(Overuse({ON: 0}), 1253, 60)
    assert (told.since, told.reported) == ({ON: 0}, {ON})


def test_each_pod_is_judged_by_itself() -> None:
    """A pod without a booking before it, or one with an unknown use, changes nothing for the next."""
    uses = [CardUse(PodOnCard("team", "b", "uid-b", 0), booked, used) for booked, used in ((0, 9), (9, None))]
    judged = judge(Overuse({ON: 0}), [*uses, CardUse(ON, 1000, 1001)], 60, EXACT, 60)

    assert judged.begun == (CardUse(ON, 1000, 1001),)


def test_pod_on_a_card_that_it_did_not_book_is_named() -> None:
    """A pod that asks for cards without a valid annotation is not: it may have booked this one."""
    uses = [
        CardUse(PodOnCard("team", name, f"uid-{name}", 1), booked, 7) for name, booked in (("a", 0), ("b", 5), ("c", 0))
    ]
    pods = [pod(**on_card(0)), bound_pod("uid-c", 2, None)]

    assert on_other_cards(uses, pods) == {PodOnCard("team", "a", "uid-a", 1)}


def test_what_ends_early_or_is_unknown_is_not_reported() -> None:
    """A short excess has no report, an unknown use changes nothing, and a pod that is gone is left for no event."""
    running = Overuse({ON: 5.0}, frozenset({ON}))

    assert look(look(Overuse(), 2000, 0), 500, 59) == Overuse()
    assert (look(running, None, 100), look(Overuse(), None, 100)) == (running, Overuse())
    assert judge(running, [], 100, EXACT, 0) == Overuse()


UID, OTHER = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f", "11111111-2222-3333-4444-555555555555"
UNDERSCORED = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "c0ffee" + "0123456789abcdef" * 3 + "0123456789"
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"
CGROUPFS = f"/kubepods/burstable/pod{UID}/{ID}"
# By runtime, version of cgroups and driver: the content of /proc/<pid>/cgroup for a process, and the pods in it.
FOUND = {
    "containerd, v2, systemd": (f"0::{SYSTEMD}/cri-containerd-{ID}.scope\n", [UID]),
    "guaranteed": (f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n", [UID]),
    "containerd, v2, cgroupfs": (f"0::{CGROUPFS}\n", [UID]),
    "containerd, v1, cgroupfs": (
        f"13:misc:/\n12:memory:{CGROUPFS}\n1:name=systemd:{CGROUPFS}\n0::/system.slice/containerd.service\n", [UID],
    ),
    "a systemd kubelet over a cgroupfs runtime": (
        f"3:pids:/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}\n", [UID],
    ),
    "CRI-O, a group below": (f"0::{SYSTEMD}/crio-{ID}.scope/container\n", [UID]),
    "kind, v2": (
        f"0::/docker/{ID}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/{ID}.scope\n", [UID],
    ),
    "kind, v1": (f"8:memory:/docker/{ID}/kubelet{CGROUPFS}\n", [UID]),
    "from a namespace, systemd": (f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/{ID}.scope\n", [UID]),
    "from a namespace, cgroupfs": (f"0::/../../pod{UID}/{ID}\n", [UID]),
    "a container in the container": (f"0::{SYSTEMD}/cri-containerd-{ID}.scope/docker/{ID}\n", [UID]),
    "a static pod, by the hash of its manifest": (f"0::/kubepods/besteffort/pod{STATIC}/{ID}\n", [STATIC]),
    "a node in a pod, the outer one first": (f"0::/kubepods/pod{OTHER}/{ID}/kubelet{CGROUPFS}\n", [OTHER, UID]),
    "the pod's group itself, of no container": (f"0::{SYSTEMD}\n", [UID]),
    "Docker without Kubernetes": (f"0::/system.slice/docker-{ID}.scope\n", []),
    "a group that only sounds like a pod": (f"0::/mine/pod{UID}/{ID}\n", []),
    "a pod's name without its end": (f"0::/kubepods/burstable/pod{UID}x/{ID}\n", []),
    "a line that is none": ("nonsense", []),
}  # fmt: skip


@pytest.mark.parametrize(("text", "uids"), FOUND.values(), ids=FOUND.keys())
def test_process_belongs_to_the_pod_of_its_control_group(text: str, uids: list[str]) -> None:
    """The uids are as the API writes them, whatever runs the node; no process is taken for a pod's by a resemblance."""
    assert pods_in_cgroups(text) == uids


def test_overuse_on_the_node_is_that_of_the_reported_pods() -> None:
    """Immediately when a pod comes or goes; another amount after a minute; an unknown one as it was seen last."""
    use, other = CardUse(ON, 1024 * MIB + 7, 1253 * MIB + 5), CardUse(PodOnCard("team", "b", "uid-b", 1), 0, 5 * MIB)
    grown, unseen = dataclasses.replace(use, used=2000 * MIB), dataclasses.replace(use, used=None)
    none = ShownOveruse()

    assert show(none, [use, other], frozenset(), 0.0) is none
    shown = show(none, [use, other], {ON}, 5.0)
    assert shown == ShownOveruse((CardOveruse("uid-a", 0, 1024, 1253),), 5.0)
    assert show(shown, [use], {ON}, 500.0) is shown
    assert show(shown, [grown], {ON}, 64.0) is shown
    assert show(shown, [grown], {ON}, 65.0).pods == (CardOveruse("uid-a", 0, 1024, 2000),)
    assert show(shown, [unseen], {ON}, 500.0) is shown
    assert show(shown, [use, other], {ON, other.on}, 6.0).pods[1] == CardOveruse("uid-b", 1, 0, 5)
    assert show(shown, [use], frozenset(), 6.0).pods == ()
    assert show(none, [unseen], {ON}, 6.0).pods == (CardOveruse("uid-a", 0, 1024, 0),)


T4 = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)
TOLERANCE = Tolerance(percent=10)
BOOKED = 1000
OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}


def one_card(*, healthy: bool = True, there: bool = True) -> NodeCards:
    """A node with one card, or with none."""
    facts = (msgspec.structs.replace(T4, healthy=healthy),) if there else ()
    return NodeCards(1, "ids", "GiB", "boot", facts)


def owned(owner: dict[str, Any] | None = OWNER, *, size: object = 14, **more: Any) -> KeptPod:
    """A pod on the card."""
    metadata = {"ownerReferences": [owner] if owner else None, "deletionTimestamp": more.pop("deleted", None)}
    written = {"ALIYUN_COM_GPU_MEM_DEV": str(size), **more.pop("annotations", {})}
    card, phase, priority = more.pop("card", 0), more.pop("phase", "Running"), more.pop("priority", 0)
    one = bound_pod("uid-a", 1, card, phase, namespace="team", name="a", metadata=metadata, **written)
    one.spec.priority = priority
    return one


# A look: seconds since the one before, the use of the pod (None: not known), whether the card is healthy, and there.
LOOKS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from([None, 0, BOOKED, 1100, 1101, 1101, 1101, 9999]),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=30,
)
OVER = (20, 1101, True, True)


@given(looks=LOOKS, after=st.integers(0, 40), grace=st.integers(1, 90))
@example(looks=[OVER] * 6, after=20, grace=60)
@example(looks=[(1000, 1101, True, True)] * 3, after=0, grace=1)
@example(looks=[*[OVER] * 3, (20, None, True, True), *[OVER] * 5], after=0, grace=60)
@example(looks=[*[OVER] * 3, (20, 1101, False, True), *[OVER] * 5], after=0, grace=60)
@example(looks=[*[OVER] * 3, (20, 1101, True, False), *[OVER] * 5], after=0, grace=60)
def test_pod_is_due_after_seen_overuse_alone(
    looks: list[tuple[int, int | None, bool, bool]], after: int, grace: int
) -> None:
    """Due in a look exactly if it and those before it, for the whole grace after the report, saw too much on a healthy card."""
    overuse, streak = Overuse(), dict[PodOnCard, Streak]()
    now = 0
    good: list[int] = []
    for seconds, used, healthy, there in looks:
        now += seconds
        use = CardUse(ON, BOOKED, used)
        overuse = judge(overuse, [use], now, TOLERANCE, after)
        streak = streaks(streak, overuse.reported, [use], one_card(healthy=healthy, there=there), now)
        is_good = ON in overuse.reported and used is not None and used > 1100 and healthy and there
        good = [*good, now] if is_good else []
        due = ON in streak and streak[ON].is_due(now, grace)

        assert due == (len(good) >= READINGS and now - good[0] >= grace)


def test_a_pod_of_a_controller_may_be_evicted() -> None:
    """Any controller makes another, a Job too, and the mark of a static pod saves none that an author wrote it on.

    The booking of a pod on a card that is gone cannot be judged.
    """
    assert keep_because(owned(), 0, one_card(there=False)).startswith("its card has another size")
    assert keep_because(owned(annotations={"kubernetes.io/config.mirror": "x"}), 0, one_card()) == ""
    assert keep_because(owned(), 0, one_card()) == ""
    assert keep_because(owned({**OWNER, "kind": "Job"}), 0, one_card()) == ""


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (owned(None), "no controller would replace it"),
        (owned({**OWNER, "controller": False}), "no controller would replace it"),
        (owned({**OWNER, "kind": "Node"}), "it is a static pod"),
        (owned(deleted="2026-01-01T00:00:00Z"), "it ends already"),
        (owned(priority=2_000_000_000), "it is critical to the cluster"),
        (owned(size=14_000), "its card has another size"),
        (owned(size="x"), "its card has another size"),
        (owned(card="none"), "its card has another size"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_pods_that_are_never_evicted(kept: KeptPod, why: str) -> None:
    """Each with its reason."""
    assert keep_because(kept, 0, one_card()).startswith(why)
