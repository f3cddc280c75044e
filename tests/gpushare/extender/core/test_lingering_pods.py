"""Promises of gpushare.extender.core.lingering_pods, in the book and against the audit."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.extender.core.audit_round import Round
from gpushare.extender.core.book import Book
from gpushare.manifests import Node, Pod

MEMORY, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"


def node(boot: str, version: int, name: str = "n") -> Node:
    """A node of one card with 15 units, in this boot."""
    status = {"capacity": {MEMORY: "15", COUNT: "1"}, "nodeInfo": {"bootID": boot}}
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(version)}, "status": status}, Node)


def pod(version: object, phase: str = "Failed", *, kind: str = "containerStatuses", running: bool = True) -> Pod:
    """A pod with the whole card; its status shows a container."""
    document = {
        "metadata": {
            "name": "shut", "namespace": "ns", "uid": "shut", "resourceVersion": str(version),
            "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {MEMORY: 15}}}]},
        "status": {"phase": phase, kind: [{"name": "c", "state": {"running" if running else "terminated": {}}}]},
    }  # fmt: skip
    return msgspec.convert(document, Pod)


def used(book: Book) -> int:
    """Units booked on the one card."""
    return book.snapshot().nodes["n"].devices[0].used


@pytest.fixture
def book() -> Book:
    """A book with the node in boot A, and a pod that lingers there."""
    book = Book()
    book.set_node(node("A", 1))
    book.set_pod(pod(2))
    return book


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_next_boot_ends_a_lingering_pod(phase: str, kind: str) -> None:
    """A pod whose phase has ended keeps its card until the node reports another boot."""
    book = Book()
    book.set_node(node("A", 1))
    book.set_pod(pod(2, phase, kind=kind))
    book.set_node(node("A", 3))
    assert used(book) == 15
    book.set_node(node("B", 4))
    assert used(book) == 0
    book.set_pod(pod(5, phase, kind=kind))
    assert used(book) == 0, "a later event does not bring it back"


def test_a_boot_does_not_end_a_running_pod() -> None:
    """A pod of phase Running is started again by its kubelet, so it keeps its card."""
    book = Book()
    book.set_node(node("A", 1))
    book.set_pod(pod(2, "Running"))
    book.set_node(node("B", 3))
    assert used(book) == 15
    book.set_pod(pod(4))
    book.set_node(node("B", 5))
    assert used(book) == 15, "its phase ended in boot B"
    book.set_node(node("C", 6))
    assert used(book) == 0


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((node("A", 1), pod(5), node("B", 4), node("B", 6)), id="node-was-first"),
        pytest.param((node("", 1), pod(2), node("B", 3)), id="former-boot-unknown"),
        pytest.param((pod(2), node("B", 3)), id="node-unknown"),
        pytest.param((node("A", 1), pod("x"), node("B", 3)), id="version-is-no-number"),
        pytest.param((node("A", 1), pod(2), node("", 3)), id="next-boot-unknown"),
        pytest.param((node("A", 1), pod(2), node("B", 3, "other"), node("A", 4)), id="another-node"),
    ],
)
def test_a_doubtful_boot_ends_nothing(events: tuple[Node | Pod, ...]) -> None:
    """The pod keeps its card if its phase may have ended in the boot that the node reports now."""
    book = Book()
    for event in events:
        if isinstance(event, Node):
            book.set_node(event)
        else:
            book.set_pod(event)
    assert used(book) == 15


def test_a_pod_without_running_containers_is_forgotten(book: Book) -> None:
    """A status that is corrected ends the pod immediately, and a pod that is gone leaves nothing behind."""
    book.set_pod(pod(3, running=False))
    assert used(book) == 0
    book.remove_pod(pod(4).metadata)
    assert not book.was_ended(pod(4))


def test_the_audit_accepts_an_end_by_boot(book: Book) -> None:
    """The API still shows running containers, and the audit finds no drift."""
    book.set_node(node("B", 3))
    audit = Round(book, lambda *_: False, frozenset())
    audit.see_node(node("B", 3))
    audit.see_pod(pod(2))
    assert audit.end() == []
    assert book.was_ended(pod(2))
    book.remove_pod(pod(2).metadata)
    assert not book.was_ended(pod(2))


def test_a_restored_history_keeps_the_end(book: Book) -> None:
    """After a restore of etcd the list shows the pod once more; its processes are as gone as before."""
    book.set_node(node("B", 3))
    book.begin_anew()
    book.set_pod(pod(2))
    assert used(book) == 0


def test_only_the_newest_ends_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of ended pods stays bounded."""
    monkeypatch.setattr("gpushare.extender.core.lingering_pods._REMEMBERED", 0)
    book = Book()
    book.set_node(node("A", 1))
    book.set_pod(pod(2))
    book.set_node(node("B", 3))
    assert not book.was_ended(pod(2))
