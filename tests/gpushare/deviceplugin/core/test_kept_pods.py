"""Promises of gpushare.deviceplugin.core.kept_pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gpushare.deviceplugin.core.kept_pods import (
    KeptPod,
    asks_for_cards,
    confirmed,
    corrected,
    cut_down,
    differences,
    identity,
    indices_in_use,
    indices_of,
    keep,
    shown_allocation,
    with_wishes_alone,
)
from gpushare.manifests import ContainerStatus, ObjectMeta, OwnerReference, Pod, PodStatus
from gpushare.model.allocation import Allocation
from gpushare.model.limits import hook_failure
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

INDEX, SEVERAL = "ALIYUN_COM_GPU_MEM_IDX", "scheduler.framework.gpushare.allocation"


def pod(*limits: dict[str, Any] | None, phase: str = "Pending", **annotations: str) -> Pod:
    """A pod of containers with these limits."""
    containers = [
        {"name": f"c{at}", "resources": None if one is None else {"limits": one}} for at, one in enumerate(limits)
    ]
    document = {
        "metadata": {"name": "a", "namespace": "d", "uid": "uid-a", "resourceVersion": "7", "annotations": annotations},
        "spec": {"containers": containers},
        "status": {"phase": phase},
    }
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([{"aliyun.com/gpu-mem": "1"}], True),
        ([None, {"aliyun.com/gpu-slot": "1"}], True),
        ([None, {"cpu": "1"}], False),
        ([], False),
        ([{"aliyun.com/gpu-mem": "1"}] * 1025, True),
    ],
    ids=["memory", "a slot", "neither", "no container", "too many containers"],
)
def test_a_pod_asks_for_cards_by_its_containers(limits: list[Any], expected: bool) -> None:
    """One of them is enough, however many the pod has."""
    assert asks_for_cards(pod(*limits)) is expected


def test_of_too_many_containers_the_first_that_ask_are_kept() -> None:
    """The pod is counted, and costs no more memory than a pod of the most containers."""
    whole = pod(*[None] * 2000, *[{"aliyun.com/gpu-mem": "1"}] * 1500)
    whole.spec.init_containers = pod(*[None] * 20, *[{"aliyun.com/gpu-mem": "1"}] * 24).spec.containers
    kept = cut_down(whole)

    assert kept is not None
    assert [one.name for one in kept.spec.init_containers or ()] == [f"c{number}" for number in range(20, 44)]
    assert [one.name for one in kept.spec.containers or ()] == [f"c{number}" for number in range(2000, 3000)]
    assert (kept.status or PodStatus()).phase == "Pending"


def test_of_a_pod_without_cards_its_name_is_kept() -> None:
    """The plugin keeps the name of a pod without cards, and keeps nothing of it once it has ended."""
    kept = cut_down(pod(None, note="x" * 1000))

    assert kept is not None
    assert (kept.metadata, kept.spec.containers) == (ObjectMeta("a", "d", "uid-a", "7"), None)
    assert cut_down(pod(None, phase="Succeeded")) is None


def test_of_an_ended_pod_its_wishes_are_kept() -> None:
    """A successor would be judged by them too."""
    wishes = {"gpushare.aliyun.com/card-model": "H100", "gpushare.aliyun.com/card-modell": ""}

    assert with_wishes_alone(pod({"aliyun.com/gpu-mem": "2"}, **wishes, **{INDEX: "0"})).metadata.annotations == wishes
    assert with_wishes_alone(pod({"aliyun.com/gpu-mem": "2"}, **{INDEX: "0"})).metadata.annotations is None


def test_a_static_pod_is_known_by_its_hash() -> None:
    """Texts of bounded length, and the owner that proves it."""
    mirror, owner = "kubernetes.io/config.mirror", OwnerReference("Node", "n", "u", controller=True)
    static = pod(None, **{mirror: "h" * 9999})
    assert identity(static).annotations is None

    static.metadata.owner_references = [owner]
    assert (identity(static).annotations, identity(static).owner_references) == ({mirror: "h" * 256}, [owner])


def on_card(**annotations: str) -> KeptPod:
    """A pod of three units."""
    return keep(pod({"aliyun.com/gpu-mem": "3"}, **annotations))


@pytest.mark.parametrize(
    ("one", "indices"),
    [
        (on_card(), set()),
        (on_card(**{INDEX: "2"}), {2}),
        (on_card(**{INDEX: "two"}), set()),
        (on_card(**{SEVERAL: '{"0":{"1":2,"3":1}}'}), {1, 3}),
        (on_card(**{SEVERAL: "{"}), set()),
    ],
)
def test_a_pod_names_its_cards(one: KeptPod, indices: set[int]) -> None:
    """An annotation that cannot be read names none; an index is in use while one pod names it."""
    assert indices_of(one) == indices
    assert indices_in_use([on_card(), on_card(**{INDEX: "0"}), one]) == {0, *indices}


REPAIR, ASSIGNED = "ALIYUN_COM_GPU_MEM_REPAIR", "ALIYUN_COM_GPU_MEM_ASSIGNED"
WISH = "gpushare.aliyun.com/card-model"


def annotated(**annotations: str) -> KeptPod:
    """A pod of two units as the API shows it."""
    return bound_pod("a", "2", None, **annotations)


def counts(one: Pod) -> dict[str, str]:
    """The annotations that count."""
    return one.metadata.annotations or {}


def test_the_first_valid_card_is_what_was_bound() -> None:
    """Before it what is shown counts; after it that card."""
    one = keep(annotated(**{INDEX: "x"}))
    assert (counts(one), differences(one)) == ({INDEX: "x"}, {})
    one = keep(annotated(**{INDEX: "1"}), one)
    assert (counts(one), differences(one)) == ({INDEX: "1"}, {})
    one = keep(annotated(**{INDEX: "2", REPAIR: "1", WISH: "T4"}), one)

    assert (counts(one), differences(one)) == ({INDEX: "1"}, {INDEX: "1", REPAIR: None})


def test_what_the_plugin_writes_counts() -> None:
    """From the answer on, or from the event that shows it, whichever comes first; while it is under way nothing is put back."""
    one = replace(keep(annotated(**{INDEX: "1", REPAIR: "2"})), expected={INDEX: "2", REPAIR: "1"})
    one = keep(annotated(**{INDEX: "0"}), one)
    assert (counts(one), differences(one)) == ({INDEX: "1", REPAIR: "2"}, {})
    one = keep(annotated(**{INDEX: "2", REPAIR: "1"}), one)
    assert counts(one) == {INDEX: "2", REPAIR: "1"}
    one = confirmed(replace(confirmed(one), expected={REPAIR: None}))
    assert confirmed(one) == one
    assert (counts(one), differences(one)) == ({INDEX: "2"}, {REPAIR: None})


def test_the_write_on_a_pod_without_a_card_is_its_first() -> None:
    """The card that the plugin writes on a pod that came without the extender counts once it is shown."""
    one = replace(keep(annotated()), expected={INDEX: "2"})
    assert keep(annotated(), one).expected == {INDEX: "2"}
    one = confirmed(one)
    assert (counts(one), differences(one)) == ({}, {})

    assert counts(keep(annotated(**{INDEX: "2"}), one)) == {INDEX: "2"}


def test_the_kubelets_book_counts_more() -> None:
    """The kubelet's record names the card, and an annotation that names no card stays if it makes sense."""
    stays = {"ALIYUN_COM_GPU_MEM_DEV": "9" * 19, "ALIYUN_COM_GPU_MEM_EXTENDER": "gpushare/1", WISH: "T4"}
    one = keep(
        annotated(**{INDEX: "1", REPAIR: "2", ASSIGNED: "false", "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "soon", **stays})
    )
    book = Allocation(((0, 2),), 10, 3, assigned=True)
    written = {
        INDEX: "0",
        "ALIYUN_COM_GPU_MEM_POD": "2",
        ASSIGNED: "true",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "3",
    }
    found = corrected(one, book)

    assert (shown_allocation(one), shown_allocation(annotated())) == (None, None)
    assert counts(found) == {**stays, **written}
    assert differences(found) == {**written, REPAIR: None}
    assert differences(corrected(replace(one, expected={INDEX: "0"}), book)) == {}


@pytest.mark.parametrize(
    ("limits", "units", "keeps_rule"),
    [
        ({"aliyun.com/gpu-mem": "1.5"}, 0, False),
        ({"aliyun.com/gpu-mem": "2"}, 2, False),
        ({"aliyun.com/gpu-mem": "2", "aliyun.com/gpu-slot": "1"}, 2, True),
        ({"aliyun.com/gpu-mem": "2", "aliyun.com/gpu-slot": "x"}, 2, False),
        ({}, 0, True),
    ],
)
def test_an_amount_that_makes_no_sense_is_none(limits: dict[str, Any], units: int, keeps_rule: bool) -> None:
    """A pod with such an amount of memory asks for 0 units, and one with such an amount of slots breaks their rule."""
    kept = keep(pod(limits))

    assert (kept.units, kept.gpu_containers) == (units, (("c0", units),) if units else ())
    assert kept.keeps_rule_of_slots is keeps_rule


@pytest.mark.parametrize("is_let_in", [True, False])
def test_the_note_that_counts_shows_whether_a_pod_was_started(is_let_in: bool) -> None:
    """The author of a pod writes or removes the plugin's note while an init container runs, and nothing changes."""
    notes = ("true", "false") if is_let_in else ("false", "true")
    bound, changed = (annotated(**{INDEX: "1", ASSIGNED: note}) for note in notes)
    for one in (bound, changed):
        one.status = msgspec.convert({"phase": "Pending", "initContainerStatuses": [{"name": "i"}]}, PodStatus)

    assert keep(changed, keep(bound)).was_started is is_let_in
    assert confirmed(replace(keep(bound), expected={ASSIGNED: "true"})).was_started


def test_a_pod_is_kept_with_what_is_about_limits() -> None:
    """Ids of containers, and of the messages one about a failure of NVIDIA's hook; each is cut, and another cut changes nothing."""
    failure = {"reason": "RunContainerError", "message": "hook failed to set memory limits " + "x" * 9000}
    states = [{"waiting": failure}, {"terminated": {"reason": "Error", "message": "m" * 9000}}, {"running": {}}, None]
    statuses = [{"name": "c", "containerID": "r://" + "0" * 999, "state": one} for one in states]
    one = pod({"aliyun.com/gpu-mem": "2"}, ALIYUN_COM_GPU_MEM_LIMITS="l" * 99_000)
    one.status = msgspec.convert({"containerStatuses": statuses, "initContainerStatuses": [{"name": "i"}]}, PodStatus)
    kept = cut_down(one)

    assert kept is not None
    assert kept.status is not None
    assert cut_down(kept) == kept
    assert len(msgspec.json.encode(kept)) < 16_000
    of_containers = kept.status.container_statuses or []
    assert [hook_failure(status)[:5] for status in of_containers] == ["hook ", "", "", ""]
    assert {status.container_id for status in of_containers} == {"r://" + "0" * 124}
    assert kept.status.init_container_statuses == [ContainerStatus("i")]
    assert len(keep(kept).shown["ALIYUN_COM_GPU_MEM_LIMITS"]) == 8193
    one.status = None
    assert (found := cut_down(one)) is not None
    assert found.status is None
