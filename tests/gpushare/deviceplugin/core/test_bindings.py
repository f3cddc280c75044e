"""Promises of gpushare.deviceplugin.core.bindings."""

from __future__ import annotations

from gpushare.deviceplugin.core.kept_pods import Bindings
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod

INDEX, REPAIR, ASSIGNED = (f"ALIYUN_COM_GPU_MEM_{name}" for name in ("IDX", "REPAIR", "ASSIGNED"))
WISH = "gpushare.aliyun.com/card-model"


def pod(**annotations: str) -> Pod:
    """A pod of two units as the API shows it."""
    return bound_pod("a", "2", None, **annotations)


def test_the_first_valid_card_is_what_was_bound() -> None:
    """Before it what is shown counts; after it that card."""
    bindings = Bindings()

    assert bindings.see(pod(**{INDEX: "x"})) == {INDEX: "x"}
    assert (bindings.different(), bindings.differences("a")) == ([], {})
    assert bindings.see(pod(**{INDEX: "1"})) == {INDEX: "1"}
    assert bindings.see(pod(**{INDEX: "2", REPAIR: "1", WISH: "T4"})) == {INDEX: "1"}
    assert (bindings.different(), bindings.differences("a")) == (["a"], {INDEX: "1", REPAIR: None})


def test_what_the_plugin_writes_counts() -> None:
    """From the answer on, or from the event that shows it, whichever comes first; while it is under way nothing is put back."""
    bindings = Bindings()
    bindings.see(pod(**{INDEX: "1", REPAIR: "2"}))
    bindings.expect("a", {INDEX: "2", REPAIR: "1"})
    bindings.see(pod(**{INDEX: "0"}))
    assert (bindings.annotations("a"), bindings.differences("a")) == ({INDEX: "1", REPAIR: "2"}, {})
    bindings.see(pod(**{INDEX: "2", REPAIR: "1"}))
    assert bindings.annotations("a") == {INDEX: "2", REPAIR: "1"}
    bindings.confirm("a")
    bindings.expect("a", {REPAIR: None})
    bindings.confirm("a")
    bindings.confirm("a")
    assert (bindings.annotations("a"), bindings.differences("a")) == ({INDEX: "2"}, {REPAIR: None})


def test_a_write_that_did_not_happen_counts_not() -> None:
    """Whatever is shown afterwards."""
    bindings = Bindings()
    bindings.see(pod(**{INDEX: "1"}))
    bindings.expect("a", {INDEX: "2"})
    bindings.give_up("a")

    assert bindings.see(pod(**{INDEX: "2"})) == {INDEX: "1"}


def test_the_kubelets_book_counts_more() -> None:
    """The kubelet's record names the card, and an annotation that names no card stays if it makes sense."""
    bindings = Bindings()
    kept = {"ALIYUN_COM_GPU_MEM_DEV": "14", "ALIYUN_COM_GPU_MEM_EXTENDER": "gpushare/1", WISH: "T4"}
    bindings.see(pod(**{INDEX: "1", REPAIR: "2", ASSIGNED: "false", "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "soon", **kept}))
    shown = bindings.shown_allocation(pod())
    found = bindings.correct("a", Allocation(((0, 2),), 10, 3, assigned=True))

    assert (shown, found) == (
        None,
        {
            **kept,
            INDEX: "0",
            "ALIYUN_COM_GPU_MEM_POD": "2",
            ASSIGNED: "true",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "3",
        },
    )


def test_a_pod_that_is_gone_is_forgotten() -> None:
    """All of it."""
    bindings = Bindings()
    bindings.see(pod(**{INDEX: "1"}))
    bindings.expect("a", {INDEX: "2"})
    bindings.forget("a")

    assert (bindings.annotations("a"), bindings.see(pod(**{INDEX: "2"}))) == ({}, {INDEX: "2"})
