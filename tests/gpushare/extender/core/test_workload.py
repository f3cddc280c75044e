"""Promises of gpushare.extender.core.workload: what is expected follows what comes, and the CPU of nodes is counted."""

from __future__ import annotations

import itertools

import pytest

from gpushare.extender.core.workload import Workload
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.wishes import NONE, Wishes
from tests.gpushare.extender.core.booked import booking, node, pod

_NUMBERS = itertools.count()


def come(workload: Workload, units: int, times: int, wishes: Wishes = NONE, *, cpu: str = "1") -> None:
    """This number of pods of this number of units."""
    for _ in range(times):
        uid = f"pod-{next(_NUMBERS)}"
        workload.note(pod(uid, cpu=cpu), booking(uid, units, 0), wishes)


def expected(workload: Workload) -> dict[PodClass, float]:
    """How often each class is expected."""
    forecast = workload.forecast()
    assert forecast is not None
    return dict(forecast.counts)


@pytest.mark.parametrize(("known", "enough"), [(80, 27), (10, 10)])
def test_what_is_expected_stays_until_enough_is_new(known: int, enough: int) -> None:
    """More than a quarter of all is enough, and no fewer than ten pods."""
    workload = Workload()
    come(workload, 4, known)
    first = workload.forecast()
    come(workload, 8, enough - 1)
    assert workload.forecast() is first
    come(workload, 8, 1)

    assert expected(workload) == {PodClass(4, cpu_milli=1000): known, PodClass(8, cpu_milli=1000): enough}


def test_what_is_expected_is_of_some_thousands_of_pods() -> None:
    """The forecast is worked out seldom, knows the pods that come rarely, and forgets those that come no more."""
    workload = Workload()
    come(workload, 3, 10)
    forecasts: dict[int, Forecast | None] = {}
    for _ in range(200):
        come(workload, 4, 99)
        come(workload, 8, 1)
        forecasts[id(workload.forecast())] = workload.forecast()

    assert len(forecasts) < 60
    found = expected(workload)
    assert set(found) == {PodClass(4, cpu_milli=1000), PodClass(8, cpu_milli=1000)}
    assert sum(found.values()) == 5000
    assert found[PodClass(8, cpu_milli=1000)] == 50


def test_the_strangest_amounts_of_cpu_are_few_classes() -> None:
    """Rounded up; and the record of pods that no scheduler asks about does not grow for ever."""
    workload = Workload()
    for cpu in range(1, 12_000):
        come(workload, 4, 1, cpu=f"{cpu}m")

    assert len(expected(workload)) <= 24
    assert PodClass(4, cpu_milli=12_000) in expected(workload)
    assert sum(expected(workload).values()) == 5000


def test_a_pod_counts_once_until_it_has_ended() -> None:
    """However often it is reported."""
    workload = Workload()
    for _ in range(30):
        workload.note(pod("a", cpu="1"), booking("a", 4, 0), NONE)
        assert expected(workload) == {PodClass(4, cpu_milli=1000): 1}
    workload.remove_pod("a")
    workload.note(pod("a", cpu="1"), booking("a", 4, 0), NONE)
    come(workload, 4, 9)

    assert expected(workload) == {PodClass(4, cpu_milli=1000): 11}


def test_a_split_is_several_cards_and_models_are_distinct() -> None:
    """The smallest part of a split in unequal parts stands for all; other wishes do not concern the cards."""
    workload = Workload()
    models = Wishes(models=(" t4 ",), banned_models=(" a100 ",))
    come(workload, 12, 1, models._replace(split=(8, 4), policy="spread"))

    assert expected(workload) == {PodClass(4, 2, 1000, models): 1}


def test_free_cpu_is_allocatable_without_the_pods_requests() -> None:
    """Never less than nothing; whichever comes first, pod or node; each change names its node. Most policies do not ask."""
    unasked = Workload()
    unasked.set_node(node("n", cpu="4"))
    unasked.set_pod(pod("a", cpu="1"), "n")
    assert dict(unasked.free_cpu) == {}

    workload, changed = Workload(counts_cpu=True), list[str]()
    workload.on_change = changed.append
    workload.set_pod(pod("a", cpu="1500m"), "n")
    assert (dict(workload.free_cpu), changed) == ({}, ["n"])
    silent = node("silent")
    silent.status = None
    for one in (node("n", cpu="4"), node("m", cpu="2"), node("odd", cpu="much"), silent):
        workload.set_node(one)
    assert dict(workload.free_cpu) == {"n": 2500, "m": 2000, "odd": 0, "silent": 0}

    changed.clear()
    workload.set_pod(pod("a", cpu="1500m"), "n")
    workload.set_pod(pod("b", cpu="0"), "n")
    assert changed == []
    workload.set_pod(pod("c", cpu="9"), "n")
    assert (workload.free_cpu["n"], changed) == (0, ["n"])
    workload.remove_pod("c")
    workload.remove_pod("c")
    assert changed == ["n"] * 2
    workload.set_pod(pod("a", cpu="1"), "m")
    assert (workload.free_cpu["n"], workload.free_cpu["m"], changed[2:]) == (4000, 1000, ["n", "m"])
    workload.set_pod(pod("a", cpu="0"), "m")
    assert (workload.free_cpu["m"], changed[4:]) == (2000, ["m"])


def test_a_node_that_is_gone_keeps_its_pods() -> None:
    """A node that is gone keeps its pods, because it comes back with them. The end of a pod does not bring it back."""
    workload = Workload(counts_cpu=True)
    workload.set_node(node("n", cpu="4"))
    for uid in ("a", "b"):
        workload.set_pod(pod(uid, cpu="1"), "n")
    workload.remove_node("n")
    workload.remove_pod("b")
    assert dict(workload.free_cpu) == {}
    workload.set_node(node("n", cpu="8"))

    assert dict(workload.free_cpu) == {"n": 7000}


def test_a_pod_that_was_not_bound_frees_the_cpu_of_its_node() -> None:
    """The change names that node, and the other one on which the pod is assumed."""
    workload, changed = Workload(counts_cpu=True), list[str]()
    workload.on_change = changed.append
    workload.put("a", "n", 1000)
    workload.forget("a", "n", "m")
    workload.forget("a", "n", "")
    assert changed == ["n", "n", "m"]
    workload.forget("a", "m", "")

    assert changed == ["n", "n", "m", "m"]
