"""Every reader of texts and objects from outside, fed with the most that the API server lets through, and its work counted.

The work is counted by ``tests.counted``: steps of the interpreter, and the peak of allocated bytes. So the test passes or fails
alike on every machine. Three promises are tested:

* A text is read with work up to a fixed budget, however long it is, and a reason about it is short.
* An object (a pod of thousands of containers) is read with work that grows no faster than the object: it has been decoded before.
* Work that compares other objects, or that each event of another object repeats, has a fixed budget.

Each row of ``ROWS`` names the bound that guards its reader, and fails if no input exceeds that bound. With the bound taken out, the
same inputs exceed the budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpushare import bounds, wire
from gpushare.bounds import Bound
from gpushare.deviceplugin.core.health import named_cards
from gpushare.errors import GpushareError
from gpushare.extender.core.accepted_state import booking_of
from gpushare.extender.core.audit_round import cards_in_conflict
from gpushare.kubectl_inspect.core import card_report, report_text
from gpushare.manifests import DisruptionBudget, Node, ObjectMeta, Pod
from gpushare.model.eviction import (
    Evictable,
    by_namespace,
    evictable_of,
    is_entangled,
    kept_budget,
    other_requests,
    protected,
)
from gpushare.model.limits import limits_by_card
from gpushare.model.node import Booking, Device, lay_out, parse_unhealthy, read_devices
from gpushare.model.pod import cpu_request, gpu_containers, is_finished, kept_of, request_of
from gpushare.model.quantity import parse_milli, parse_units
from tests.counted import Work, bytes_of, returned_of, steps_of

# The limits of an API server: all annotations of an object together, the data of a ConfigMap, and an object.
ANNOTATIONS, CONFIG_MAP, OBJECT = 256 * 1024, 1024 * 1024, 1536 * 1024
# The longest reason about a value from outside.
LONGEST_REASON = 1000

CARD = '{"index":%d,"uuid":"GPU-%d","model":"Tesla T4","mib":15079,"units":14}'


BUDGET = Work(4_000, 128 * 1024)
# For a list whose beginning is read although it is too long: some lines for each entry.
BUDGET_OF_LIST = Work(60_000, 512 * 1024)


@dataclass(frozen=True, slots=True)
class Row:
    """A reader, the most text that it can get, what such texts look like, the bound that guards it, and its budget.

    A shape is a beginning, a part that is repeated until the text is long enough, and an end.
    """

    read: Callable[[str], Sequence[object]]
    bound: Bound | None
    shapes: tuple[tuple[str, str, str], ...]
    limit: int = ANNOTATIONS
    most: Work = BUDGET


def pod(**annotations: str) -> Pod:
    """A bound pod of three units."""
    container = {"name": "c", "resources": {"limits": {wire.RESOURCE_MEMORY: "3"}}}
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n", "containers": [container]}}, Pod)


def reads_pod(name: str) -> Callable[[str], Sequence[object]]:
    """The work on a pod's annotation: for a question, in the book, and in the table."""

    def read(text: str) -> Sequence[object]:
        item = pod(**{wire.ANNOTATION_INDEX: "0", name: text})
        *_, problem = booking_of(item)
        bound = card_report.bound_pod(item)
        assert bound is not None
        reasons = [problem, *(one.text for one in card_report.report([], [bound])[1])]
        return [*reasons, _error_of(partial(request_of, item))]

    return read


def reads_node(text: str) -> Sequence[object]:
    """The work on a node's cards annotation: in the book, in the audit, and in the table."""
    item = node({wire.RESOURCE_MEMORY: "28", wire.RESOURCE_COUNT: "2"}, text)
    in_conflict = cards_in_conflict(item)
    reports, problems = card_report.report([item], [])
    return [
        read_devices(item).published.refusal,
        in_conflict and in_conflict.api,
        *(one.text for one in problems),
        report_text.summary(reports),
        report_text.details(reports),
    ]


def reads_overuse(text: str) -> Sequence[object]:
    """A node's annotation of overusing pods: in the book, in the table, and on the page."""
    item = node({wire.RESOURCE_MEMORY: "28", wire.RESOURCE_COUNT: "2"}, None)
    item.metadata.annotations = {wire.ANNOTATION_OVERUSE: text}
    reports, problems = card_report.report([item], [])
    return [read_devices(item).published.overuse[:1], *problems, report_text.details(reports)]


def reads_limits(text: str) -> Sequence[object]:
    """A pod's annotation of limits, in the table and in the document."""
    limited = Pod(ObjectMeta("p", "d", annotations={wire.ANNOTATION_LIMITS: text}))
    return [limits_by_card(limited)[0]] if limits_by_card(limited) else []


def reads_amount(text: str) -> Sequence[object]:
    """A number of units or of CPU, in a node's status or in a container."""
    item = node({wire.RESOURCE_MEMORY: text, wire.RESOURCE_COUNT: text}, None)
    reports, problems = card_report.report([item], [])
    reasons = [read_devices(item).published.refusal, *problems, report_text.summary(reports), parse_milli(text)]
    return [*reasons, _error_of(partial(parse_units, text))]


def reads_unhealthy(text: str) -> Sequence[object]:
    """The ConfigMap of unhealthy cards."""
    return [f"{','.join(parse_unhealthy(text)[1]):.200}"]


def reads_recovered(text: str) -> Sequence[object]:
    """An operator's list of cards that are healthy again."""
    return [f"{','.join(named_cards(text, ())[1]):.200}"]


def node(capacity: dict[str, str], annotation: str | None) -> Node:
    annotations = {} if annotation is None else {wire.ANNOTATION_CARDS: annotation}
    status = {"capacity": capacity, "allocatable": capacity}
    return msgspec.convert({"metadata": {"name": "n", "annotations": annotations}, "status": status}, Node)


def _error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except GpushareError as error:
        return str(error)
    return ""


LISTS = (
    ("", ",", ""),
    ("", "a,", "a"),
    ("", "GPU-0123,", "GPU-1"),
    ("", "0,", "0"),
    ("", "a b ", ""),
    ("", "ß", ""),
    ("", " ", "1"),
)
DIGITS = (("", "9", ""), ("1", "0", "k"), ("0.", "0", "1"), ("1e", "9", ""))
MANY_CARDS = (
    ('{"0":{"0":3', ',"1":0', "}}"),
    ('{"0":{"0":3}', ',"1":{"0":0}', "}"),
    ('{"0":{"', "0", '":3}}'),
    ('{"0":{"0":', "9", "}}"),
    ('{"0":', '{"0":', ""),
)
PIECES = st.sampled_from(',0a-. "{}[]:\\ß\x00')
ENDS = st.text(PIECES, max_size=4)
HEAD = '{"v":%d,"mode":"ids","unit":"GiB","boot":"","cards":['
ROWS = {
    **{name: Row(reads_pod(name), bounds.WISH_CHARACTERS, LISTS) for name in wire.WISHES},
    **{
        name: Row(reads_pod(name), None, LISTS + DIGITS)
        for name in (
            wire.ANNOTATION_INDEX,
            wire.ANNOTATION_DEVICE_UNITS,
            wire.ANNOTATION_POD_UNITS,
            wire.ANNOTATION_ASSUME_TIME,
            wire.ANNOTATION_ASSIGNED,
            wire.ANNOTATION_REPAIR,
            wire.PEOPLE_PREFIX + "unknown",
        )
    },
    wire.ANNOTATION_ALLOCATION: Row(reads_pod(wire.ANNOTATION_ALLOCATION), bounds.ALLOCATION_CHARACTERS, MANY_CARDS),
    wire.ANNOTATION_CARDS: Row(
        reads_node,
        bounds.CARDS_TEXT,
        (
            (HEAD % 1, CARD % (0, 0) + ",", CARD % (1, 1) + "]}"),
            (HEAD % 2, CARD % (0, 0) + ",", CARD % (1, 1) + "]}"),
            ('{"v":1,"x":', "[", ""),
            ('{"v":2,"cards":', '[{"index":', ""),
            ('{"v":', "1", "}"),
        ),
        most=BUDGET_OF_LIST,
    ),
    wire.ANNOTATION_OVERUSE: Row(
        reads_overuse,
        bounds.OVERUSE_TEXT,
        (
            ("[", '["u",0,1,2],', '["u",0,1,2]]'),
            ("[", "[],", "[]]"),
            ("", "[", ""),
            ('[["u",0,1,', "[", ""),
            ('[["', "u", '",0,1,2]]'),
            ('[["u",0,1,', "9", "]]"),
        ),
    ),
    wire.ANNOTATION_LIMITS: Row(
        reads_limits,
        bounds.LIMITS_TEXT,
        (
            ("[", '["c",0,"none",0],', '["c",0,"none",0]]'),
            ("", "[", ""),
            ('[["', "c", '",0,"none",0]]'),
            ('[["c",0,"none",', "9", "]]"),
        ),
        most=BUDGET_OF_LIST,
    ),
    "the list of unhealthy cards": Row(reads_unhealthy, bounds.CARD_LIST, LISTS, CONFIG_MAP, BUDGET_OF_LIST),
    wire.ANNOTATION_RECOVERED: Row(reads_recovered, bounds.CARD_LIST, LISTS, most=BUDGET_OF_LIST),
    "a quantity": Row(reads_amount, bounds.QUANTITY_TEXT, (*DIGITS, *LISTS)),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_text_is_read_within_a_fixed_budget(name: str) -> None:
    """However long it is; and a reason about it does not repeat it."""
    for text in _texts(ROWS[name]):
        _check(ROWS[name], text)


# Without shrinking: the text of a failure is named, and to look for a smaller one takes minutes at these sizes.
@settings(deadline=None, max_examples=300, phases=(Phase.generate,))
@given(st.sampled_from(sorted(ROWS)), ENDS, st.text(PIECES, min_size=1, max_size=4), ENDS)
def test_any_text_is_read_within_a_fixed_budget(name: str, start: str, part: str, end: str) -> None:
    """Whatever is repeated in it."""
    _check(ROWS[name], _filled(ROWS[name].limit, start, part, end))


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.bound])
def test_the_bound_refuses_what_these_tests_feed(name: str) -> None:
    """The bound refuses what these tests feed, so the budget is kept because of the bound and not because texts are harmless."""
    row = ROWS[name]
    asked = [one for text in _texts(row) for one in returned_of(partial(row.read, text), Bound.exceeded)]

    assert any(is_exceeded and arguments["self"] == row.bound for arguments, is_exceeded in asked)


def _check(row: Row, text: str) -> None:
    # A first reading makes what is kept for later ones (imports, caches).
    row.read(text)
    assert steps_of(partial(row.read, text), row.most.steps) <= row.most.steps, text[:60]
    assert bytes_of(partial(row.read, text)) <= row.most.bytes, text[:60]
    assert all(len(str(reason)) <= LONGEST_REASON for reason in row.read(text)), text[:60]


def _texts(row: Row) -> Iterator[str]:
    """As long as the API server takes them, and as long as the bound does: then the next bound must hold."""
    limits = [row.limit] if row.bound is None else [row.limit, row.bound.most]
    return (_filled(limit, *shape) for limit in limits for shape in row.shapes)


def _filled(limit: int, start: str, part: str, end: str) -> str:
    return start + part * ((limit - len((start + end).encode())) // len(part.encode())) + end


def container(at: int, **changes: object) -> dict[str, object]:
    """A container that asks for a unit of card memory."""
    return {"name": f"c{at}", "resources": {"limits": {wire.RESOURCE_MEMORY: "1", wire.RESOURCE_SLOT: "1"}}} | changes


def pod_document(spec: dict[str, object], **more: object) -> dict[str, object]:
    """A bound pod."""
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u"} | more, "spec": {"nodeName": "n"} | spec}


# Pods with this many of something.
MANY: dict[str, Callable[[int], dict[str, object]]] = {
    "containers": lambda count: pod_document({"containers": [container(at) for at in range(count)]}),
    "init containers": lambda count: pod_document(
        {"initContainers": [container(at, restartPolicy="Always") for at in range(count)]}
    ),
    "resources": lambda count: pod_document(
        {"containers": [container(at, resources={"requests": {f"x.io/{at}": "1", "cpu": "1"}}) for at in range(count)]}
    ),
    "resources of one container": lambda count: pod_document(
        {"containers": [container(0, resources={"requests": {f"x.io/{at}": "1" for at in range(count)}})]}
    ),
    "labels": lambda count: pod_document(
        {"containers": [container(0)]}, labels={f"label-{at}": "v" for at in range(count)}
    ),
}


def reads_object(item: Pod) -> Sequence[object]:
    """The work on a pod, by the extender and by the plugin."""
    kept = kept_of(item)
    readers = (
        request_of,
        booking_of,
        is_finished,
        cpu_request,
        other_requests,
        is_entangled,
        evictable_of,
        gpu_containers,
    )
    return [*(reader(item) for reader in readers), *(reader(kept) for reader in readers)]


@pytest.mark.parametrize("name", MANY)
def test_a_pod_is_read_with_work_that_grows_no_faster_than_it(name: str) -> None:
    """Twice as many containers are twice the work. Counting is slow, so this is a pod of a quarter of the largest, and its half."""
    largest = OBJECT // (4 * (len(json.dumps(MANY[name](1000))) // 1000))
    half, whole = (msgspec.convert(MANY[name](count), Pod) for count in (largest // 2, largest))

    assert steps_of(partial(reads_object, whole)) < 2.2 * steps_of(partial(reads_object, half)) + 1_000


BUDGETS: dict[str, Callable[[int], list[dict[str, object]]]] = {
    "values": lambda count: [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["v"] * count}]}],
    "expressions": lambda count: [{"matchExpressions": [{"key": "a", "operator": "Exists"}] * count}],
    "labels": lambda count: [{"matchLabels": {"a": "1"} | {f"l{at}": "1" for at in range(count)}}],
    "budgets": lambda count: [{"matchLabels": {"a": "1"}}] * (count // 10),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_preemption_compares_within_a_fixed_budget(name: str) -> None:
    """However many budgets a namespace has, and whatever they select by."""
    budgets = by_namespace(
        kept_budget(
            msgspec.convert({"metadata": {"namespace": "ns"}, "spec": {"selector": selector}}, DisruptionBudget)
        )
        for selector in BUDGETS[name](50_000)
    )
    pods = [("ns", str(at), Evictable(0, (("a", "1"),), (), False, False)) for at in range(10)]

    assert steps_of(lambda: list(protected(pods, budgets))) < 10 * 256 * 30


def test_a_node_is_laid_out_with_so_many_pods() -> None:
    """An author can name a node in any number of pods."""
    bookings = [Booking(str(at), "ns", str(at), 1, ((0, 1),)) for at in range(20_000)]

    assert steps_of(lambda: lay_out("n", (Device(0, 14),), bookings)) < 1024 * 30
