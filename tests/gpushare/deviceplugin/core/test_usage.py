"""Promises of gpushare.deviceplugin.core.usage."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.usage import (
    MIB,
    CardUse,
    Overuse,
    PodOnCard,
    ProcessUse,
    ShownOveruse,
    bookings,
    judge,
    on_other_cards,
    pods_in_cgroups,
    show,
    sum_up,
)
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.overuse import CardOveruse
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
    """Units times the unit, whatever it is."""
    fine = msgspec.structs.replace(CARDS, unit="256MiB")

    assert bookings([pod(2, **on_card(1))], CARDS) == (CardUse(PodOnCard("team", "a", "uid-a", 1), 2048 * MIB),)
    assert bookings([pod(2, **on_card(1))], fine) == (CardUse(PodOnCard("team", "a", "uid-a", 1), 512 * MIB),)


def test_a_pod_of_several_cards_booked_of_each() -> None:
    """The multi-card annotation has the amount of each."""
    many = {"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":3}}'}

    assert [(use.on.index, use.booked // MIB) for use in bookings([pod(4, **many)], CARDS)] == [(0, 1024), (1, 3072)]


def test_pods_without_a_valid_card_booked_nothing_that_we_know() -> None:
    """A pod without a readable card and amount booked nothing, nor did one in an unreadable unit."""
    pods = [pod(), pod(**on_card("x")), pod("1.5", **on_card(0))]

    assert bookings(pods, CARDS) == ()
    assert bookings([pod(**on_card(0))], msgspec.structs.replace(CARDS, unit="?")) == ()


def test_processes_are_summed_by_pod_and_card() -> None:
    """The use of several containers and several processes, beside the booking; an idle pod uses 0."""
    processes = [ProcessUse(0, "uid-a", 100), ProcessUse(0, "uid-a", 50), ProcessUse(1, "uid-a", 7)]
    booked = [CardUse(ON, 120), CardUse(PodOnCard("team", "b", "uid-b", 0), 5)]

    uses = sum_up(processes, booked, PODS).uses

    assert {use.on: (use.booked, use.used) for use in uses} == {
        ON: (120, 150 * MIB),
        PodOnCard("team", "b", "uid-b", 0): (5, 0),
        PodOnCard("team", "a", "uid-a", 1): (0, 7 * MIB),
    }


def test_a_process_of_no_pod_is_unaccounted() -> None:
    """A service of the host, and a pod of another node (a stale control group)."""
    unknown = [ProcessUse(1, None, None)] * 2
    seen = sum_up([ProcessUse(0, None, 30), ProcessUse(0, "stranger", 12), *unknown], [], PODS)

    assert (seen.uses, seen.unaccounted, seen.without_figure) == ((), {0: 42 * MIB, 1: None}, {1: 2})


def test_an_unknown_amount_is_not_zero() -> None:
    """None of a pod's processes has a figure: no use is known; one has: it is at least that."""
    known = ProcessUse(0, "uid-a", 10)
    unknown = ProcessUse(0, "uid-a", None)

    assert sum_up([unknown], [CardUse(ON, 1)], PODS).uses[0].used is None
    assert sum_up([unknown, known], [CardUse(ON, 1)], PODS).uses[0].used == 10 * MIB
    assert sum_up([known, unknown], [CardUse(ON, 1)], PODS).uses[0].used == 10 * MIB


def test_the_use_of_a_silent_card_is_not_known() -> None:
    """Lost or slow: not idle."""
    seen = sum_up([ProcessUse(1, "uid-a", 3)], [CardUse(ON, 1)], PODS, frozenset({0}))

    assert [(use.on.index, use.used) for use in seen.uses] == [(0, None), (1, 3 * MIB)]


def test_a_tolerance_is_a_share_or_an_amount() -> None:
    """The use within the booking, and beside it; the use above a booking is never negative, nor is an unknown one."""
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


def test_within_the_tolerance_is_no_overuse() -> None:
    """At the limit is within."""
    assert look(Overuse(), 1100, 0, Tolerance(10), 0).begun == ()
    assert look(Overuse(), 1101, 0, Tolerance(10), 0).begun != ()


def test_what_ends_early_or_is_unknown_is_not_reported() -> None:
    """A short excess has no report, an unknown use changes nothing, and a pod that is gone is left for no event."""
    running = Overuse({ON: 5.0}, frozenset({ON}))

    assert look(look(Overuse(), 2000, 0), 500, 59) == Overuse()
    assert (look(running, None, 100), look(Overuse(), None, 100)) == (running, Overuse())
    assert judge(running, [], 100, EXACT, 0) == Overuse()


UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"
UNDERSCORED = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "c0ffee" + "0123456789abcdef" * 3 + "0123456789"
OUTER = "ab" * 32

# Driver, runtime, version of cgroups: the content of /proc/<pid>/cgroup for a process in a container of the pod.
SYSTEMD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"
PATHS = {
    "containerd, v2, systemd": f"0::{SYSTEMD}/cri-containerd-{ID}.scope\n",
    "containerd, v2, systemd, guaranteed": f"0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n",
    "containerd, v2, cgroupfs": f"0::/kubepods/besteffort/pod{UID}/{ID}\n",
    "containerd, v2, cgroupfs, guaranteed": f"0::/kubepods/pod{UID}/{ID}\n",
    "containerd, v1, cgroupfs": (
        f"12:memory:/kubepods/burstable/pod{UID}/{ID}\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n"
        f"1:name=systemd:/kubepods/burstable/pod{UID}/{ID}\n0::/system.slice/containerd.service\n"
    ),
    "containerd, v1, a controller that nobody uses": f"13:misc:/\n12:rdma:/\n4:memory:/kubepods/besteffort/pod{UID}/{ID}\n",
    "containerd, v1, systemd": f"5:devices:{SYSTEMD}/cri-containerd-{ID}.scope\n",
    "containerd, v1, a systemd kubelet over a cgroupfs runtime": (
        f"3:pids:/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{ID}\n"
    ),
    "CRI-O, v2, systemd": f"0::{SYSTEMD}/crio-{ID}.scope\n",
    "CRI-O, v2, systemd, a group below": f"0::{SYSTEMD}/crio-{ID}.scope/container\n",
    "CRI-O, v1, cgroupfs": f"9:memory:/kubepods/burstable/pod{UID}/crio-{ID}\n",
    "Docker, v1, cgroupfs": f"4:memory:/kubepods/besteffort/pod{UID}/{ID}\n3:cpu:/\n",
    "Docker, v1, systemd": f"4:memory:{SYSTEMD}/docker-{ID}.scope\n",
    "Docker, v2, systemd": f"0::{SYSTEMD}/docker-{ID}.scope\n",
    "kind, v2": (
        f"0::/docker/{OUTER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n"
    ),
    "kind, v1": f"8:memory:/docker/{OUTER}/kubelet/kubepods/besteffort/pod{UID}/{ID}\n",
    "seen from a namespace of cgroups, systemd": f"0::/../../kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-{ID}.scope\n",
    "seen from a namespace of cgroups, cgroupfs": f"0::/../../pod{UID}/{ID}\n",
    "a container in the container": f"0::{SYSTEMD}/cri-containerd-{ID}.scope/docker/{OUTER}\n",
}


OTHER = "11111111-2222-3333-4444-555555555555"
OTHER_PODS = {
    "a static pod, by the hash of its manifest": (f"0::/kubepods/besteffort/pod{STATIC}/{ID}\n", [STATIC]),
    "a node in a pod, the outer one first": (
        f"0::/kubepods/pod{OTHER}/{OUTER}/kubelet/kubepods/pod{UID}/{ID}\n", [OTHER, UID],
    ),
    "the pod's group itself, of no container": (f"0::{SYSTEMD}\n", [UID]),
}  # fmt: skip
STRANGERS = {
    "a service of the host": "0::/system.slice/sshd.service\n",
    "the root": "0::/\n",
    "Docker without Kubernetes": f"0::/system.slice/docker-{ID}.scope\n",
    "containerd without Kubernetes": f"0::/k8s.io/{ID}\n",
    "a user's session": "1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/user.slice\n",
    "a group that only sounds like a pod": f"0::/mine/pod{UID}/{ID}\n",
    "a pod's name without its end": f"0::/kubepods/burstable/pod{UID}x/{ID}\n",
    "a pod of podman": f"0::/machine.slice/libpod_pod_{ID}.slice/libpod-{ID}.scope\n",
    "nothing": "",
    "a line that is none": "nonsense",
}


FOUND = {
    **{name: (text, [UID]) for name, text in PATHS.items()},
    **OTHER_PODS,
    **{name: (text, []) for name, text in STRANGERS.items()},
}


@pytest.mark.parametrize(("text", "uids"), FOUND.values(), ids=FOUND.keys())
def test_process_belongs_to_the_pod_of_its_control_group(text: str, uids: list[str]) -> None:
    """The uids are as the API writes them, whatever runs the node; no process is taken for a pod's by a resemblance."""
    assert pods_in_cgroups(text) == uids


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """The kernel's texts are not ours to refuse."""
    pods_in_cgroups(text)


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
