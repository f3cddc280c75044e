"""Each survivor is accepted with a reason, and no reason outlives its survivor."""

from __future__ import annotations

from tests.mutants.accepted_survivors import Accepted, findings, load

_TEXT = Accepted("A text.", "gpushare.model.*", lines=('x = "XXaXX"',), like=(r'Error\("XX',))


def test_findings_are_survivors_and_entries_without_each_other() -> None:
    """A whole line, or a regular expression, accepts a survivor of its functions; only entries for the run's modules count."""
    survivors = [("gpushare.model.cards.add", 'x = "XXaXX"'), ("gpushare.model.cards.add", 'raise Error("XXnoXX")')]
    assert findings([_TEXT], survivors, ["gpushare.model"]) == []
    others = [("gpushare.model.cards.add", 'x = "XXaXX" + b'), ("gpushare.extender.core.book.add", 'x = "XXaXX"')]
    assert [each.split("\n")[0] for each in findings([_TEXT], others, ["gpushare.extender"])] == [
        f"not killed: {function}" for function, _ in others
    ]
    assert len(findings([_TEXT], [], ["gpushare.model"])) == 2
    assert findings([_TEXT], [], ["gpushare.extender"]) == []


def test_each_accepted_survivor_has_a_reason() -> None:
    """In a sentence."""
    assert all(each.reason.endswith(".") and (each.lines or each.like) for each in load())
