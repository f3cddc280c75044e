"""Promises of gpushare.extender.core.book: the pods that come, and their CPU."""

from __future__ import annotations

from gpushare import wire
from gpushare.extender.core.book import Book
from gpushare.extender.core.workload import Workload
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.placement import question
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes
from tests.gpushare.extender.core.booked import booking, node, pod


def test_what_pods_come_is_seen_once_each() -> None:
    """When the API shows them bound with cards; not as assumed, not again at a change."""
    workload = Workload()
    book = Book(workload)
    book.set_node(node())
    book.assume("n", booking("b", 5, 1))
    assert book.snapshot().forecast() is None
    for units in (3, 4):
        book.set_pod(pod("a", units, on="n", card=0))
    wished = pod("c", 2, on="n", card=1)
    wished.metadata.annotations |= {wire.WISH_MODEL: "T4", wire.WISH_POLICY: "spread"}  # type: ignore[operator]
    book.set_pod(wished)
    nowhere = pod("d", 2, on="n", card=1)
    nowhere.metadata.annotations = None
    book.set_pod(nowhere)

    forecast = workload.forecast()
    assert forecast is not None
    assert forecast.counts == {PodClass(3): 1, PodClass(2, wishes=Wishes(models=(" t4 ",))): 1}


def test_a_correction_counts_no_pod_twice() -> None:
    """A corrected pod counts once, in the forecast and by its CPU, although its card was written after the binding."""
    workload = Workload(counts_cpu=True)
    book = Book(workload)
    book.set_node(node(cpu="8"))
    late = pod("a", 3, on="n", cpu="1")
    book.set_pod(late)
    assert workload.forecast() is None
    for _ in range(3):
        book.correct(pod("a", 3, on="n", card=0, cpu="1"))

    forecast = workload.forecast()
    assert forecast is not None
    assert dict(forecast.counts) == {PodClass(3, cpu_milli=1000): 1}
    assert dict(book.snapshot().free_cpu) == {"n": 7000}
    book.correct(pod("a", 3, cpu="1"))
    assert dict(book.snapshot().free_cpu) == {"n": 8000}


def test_an_assumed_pod_has_its_cpu() -> None:
    """The next pod may come before the watch shows this one; a bind that was refused gives it back, on its own node alone."""
    workload = Workload(counts_cpu=True, expected=Forecast({PodClass(4): 1}))
    book = Book(workload)
    for name in ("n", "m"):
        book.set_node(node(name, cpu="8"))
    free = book.snapshot().free_cpu
    asked = question(Request(4), book.snapshot(), "fragmentation", 1000)
    costs = book.answers.costs(asked)
    assert costs is not None
    costs["n"] = 1.0

    book.assume("n", booking("a", 3, 0), 2500)
    assert (dict(free), book.answers.costs(asked)) == ({"n": 5500, "m": 8000}, {})
    book.set_pod(pod("a", 3, on="n", card=0, cpu="2500m"))
    book.set_pod(pod("plain", 0, on="n", cpu="1"))
    assert dict(free) == {"n": 4500, "m": 8000}
    book.remove_pod(pod("plain").metadata)
    assert dict(free) == {"n": 5500, "m": 8000}

    book.assume("n", booking("b", 3, 1), 1000)
    book.assume("m", booking("b", 3, 1), 1000)
    book.forget("b", "n")
    assert dict(free) == {"n": 5500, "m": 7000}
    book.assume("n", booking("b", 3, 1), 1000)
    book.forget("b", "n")
    assert dict(free) == {"n": 5500, "m": 7000}, "it is assumed on the other still"
    book.forget("b", "m")
    book.assume("m", booking("c", 3, 0))
    assert dict(free) == {"n": 5500, "m": 8000}


def test_a_pod_without_cards_has_its_cpu_once_it_is_bound() -> None:
    """A pod without cards uses its CPU from its bind on, unless the watch has not shown it yet or has seen its end."""
    book = Book(Workload(counts_cpu=True))
    book.set_node(node(cpu="8"))
    free, metadata = book.snapshot().free_cpu, pod("plain").metadata
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 8000}, "no event would ever show that it has gone"
    book.set_pod(pod("plain", 0, cpu="500m"))
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 7500}
    book.set_pod(pod("plain", 0, on="n", cpu="4"))
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 4000}, "the watch knew better"
    book.remove_pod(metadata)
    book.bound(metadata, "n", 500)
    assert dict(free) == {"n": 8000}
