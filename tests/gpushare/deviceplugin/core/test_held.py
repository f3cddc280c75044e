"""Promises of gpushare.deviceplugin.core.held."""

from __future__ import annotations

from gpushare.deviceplugin.core.held import HeldError, HeldPods, HoldReason
from gpushare.manifests import ObjectMeta


def test_a_pod_is_held_until_it_is_let_go_or_gone() -> None:
    """With the reason that was given last."""
    pods = HeldPods()
    a, b = ObjectMeta("a", "d", "ua"), ObjectMeta("b", "d", "ub")
    pods.hold(HeldError(HoldReason.SETTLING, "a moment"))
    for reason, pod in ((HoldReason.SETTLING, a), (HoldReason.FIXED, a), (HoldReason.NO_ROOM, b)):
        pods.hold(HeldError(reason, f"because {reason.value}", pod))

    held = pods.among({"ua", "ub"})
    assert {uid: (one.name, one.reason, one.text, one.is_final) for uid, one in held.items()} == {
        "ua": ("a", HoldReason.FIXED, "because CardIsFixed", True),
        "ub": ("b", HoldReason.NO_ROOM, "because NoRoom", False),
    }
    pods.release("ua")
    pods.release("unknown")
    assert set(pods.among({"ua", "ub"})) == {"ub"}
    assert pods.among(set()) == {}
