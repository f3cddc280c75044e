"""Promises of gpushare.wire."""

from __future__ import annotations

from gpushare import wire


def test_every_wish_is_in_the_list_of_wishes() -> None:
    """A wish that is added is read, kept and obeyed everywhere, because all lists come from this one."""
    named = {text for name, text in vars(wire).items() if name.startswith("WISH_")}

    assert named == set(wire.WISHES)
    assert named - set(wire.CARD_WISHES) == {wire.WISH_POLICY}
    by_card = ["card-model", "card-model-not", "card-uuid", "card-uuid-not", "same-card", "split"]
    assert named == {f"gpushare.aliyun.com/{name}" for name in ["policy", *by_card]}
