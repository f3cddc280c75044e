"""Promises of gpushare.deviceplugin.core.overuser_eviction."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushare.cli.plugin_flags import Tolerance
from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.deviceplugin.core.overuser_eviction import READINGS, Streak, keep_because, streaks
from gpushare.deviceplugin.core.usage import CardUse, Overuse, PodOnCard, judge
from gpushare.manifests import Pod
from gpushare.model.cards import CardFacts, NodeCards

T4 = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)
ON = PodOnCard("team", "a", "uid-a", 0)
TOLERANCE = Tolerance(percent=10)
BOOKED = 1000
OWNER = {"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}


def cards(*, healthy: bool = True, there: bool = True) -> NodeCards:
    """A node with one card, or with none."""
    facts = (msgspec.structs.replace(T4, healthy=healthy),) if there else ()
    return NodeCards(1, "ids", "GiB", "boot", facts)


def pod(owner: dict[str, Any] | None = OWNER, *, size: object = 14, **more: Any) -> KeptPod:
    """A pod on the card."""
    annotations = {"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_DEV": str(size)}
    metadata = {
        "name": "a", "namespace": "team", "uid": "uid-a", "annotations": annotations | more.pop("annotations", {}),
        "ownerReferences": [owner] if owner else None, "deletionTimestamp": more.pop("deleted", None),
    }  # fmt: skip
    spec = {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 1}}}]}
    phase = {"phase": more.pop("phase", "Running")}
    return keep(msgspec.convert({"metadata": metadata, "spec": {**spec, **more}, "status": phase}, Pod))


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
        streak = streaks(streak, overuse.reported, [use], cards(healthy=healthy, there=there), now)
        is_good = ON in overuse.reported and used is not None and used > 1100 and healthy and there
        good = [*good, now] if is_good else []
        due = ON in streak and streak[ON].is_due(now, grace)

        assert due == (len(good) >= READINGS and now - good[0] >= grace)


def test_one_long_look_is_not_enough() -> None:
    """However short the grace period is."""
    use = CardUse(ON, BOOKED, 5000)
    seen: dict[PodOnCard, Streak] = {}
    due = []
    for now in (0.0, 1000.0, 2000.0):
        seen = streaks(seen, {ON}, [use], cards(), now)
        due.append(seen[ON].is_due(now, 1.0))

    assert due == [False, False, True]


def test_a_pod_of_a_controller_may_be_evicted() -> None:
    """Any controller makes another, a Job too, and the mark of a static pod saves none that an author wrote it on."""
    assert keep_because(pod(annotations={"kubernetes.io/config.mirror": "x"}), 0, cards()) == ""
    assert keep_because(pod(), 0, cards()) == ""
    assert keep_because(pod({**OWNER, "kind": "Job"}), 0, cards()) == ""


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (pod(None), "no controller would replace it"),
        (pod({**OWNER, "controller": False}), "no controller would replace it"),
        (pod({**OWNER, "kind": "Node"}), "it is a static pod"),
        (pod(deleted="2026-01-01T00:00:00Z"), "it ends already"),
        (pod(priority=2_000_000_000), "it is critical to the cluster"),
        (pod(size=14_000), "its card has another size"),
        (pod(size="x"), "its card has another size"),
        (pod(annotations={"ALIYUN_COM_GPU_MEM_IDX": "none"}), "its card has another size"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_pods_that_are_never_evicted(kept: KeptPod, why: str) -> None:
    """Each with its reason."""
    assert keep_because(kept, 0, cards()).startswith(why)


def test_pod_of_a_card_that_is_gone_stays() -> None:
    """Its booking cannot be judged."""
    assert keep_because(pod(), 0, cards(there=False)).startswith("its card has another size")
