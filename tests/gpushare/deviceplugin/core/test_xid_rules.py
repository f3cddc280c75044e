"""Promises of gpushare.deviceplugin.core.xid_rules, after NVIDIA's plugin."""

from __future__ import annotations

import pytest

from gpushare.deviceplugin.core.health import APPLICATION_XIDS, XidRules, read_rules


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_errors_of_applications_are_ignored(xid: int) -> None:
    """The errors of applications are ignored, because they show nothing about the card."""
    assert not XidRules().is_critical(xid)


@pytest.mark.parametrize("xid", [1, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154, 999])
def test_every_other_xid_is_critical(xid: int) -> None:
    """Every other Xid is critical, also an unknown one."""
    assert XidRules().is_critical(xid)


@pytest.mark.parametrize(
    ("disable", "enable", "critical", "ignored"),
    [
        ("", "", [48, 79], [13, 109]),
        ("48, 63", "", [79], [13, 48, 63]),
        ("all", "", [], [48, 79, 31]),
        ("XIDs", "", [], [48, 79, 31]),
        ("48,all", "", [], [48, 79, 31]),
        ("all", "48", [48], [79, 31]),
        ("", "45", [45, 79], [13]),
        ("48", "48", [48], [13]),
        ("all", "all", [13, 48, 79], []),
        ("48", "ALL", [13, 48, 79], []),
    ],
)
def test_the_two_variables_mean_what_they_mean_to_nvidias_plugin(
    disable: str, enable: str, critical: list[int], ignored: list[int]
) -> None:
    """The one adds to what is ignored, the other overrides both."""
    rules, odd = read_rules(disable, enable)

    assert [xid for xid in critical if not rules.is_critical(xid)] == []
    assert [xid for xid in ignored if rules.is_critical(xid)] == []
    assert odd == ()


def test_entries_that_are_no_xids_are_skipped_and_named() -> None:
    """A slip in one entry does not cost the others."""
    rules, odd = read_rules("48,,4x, ²", "-1,45")

    assert (rules.ignored, rules.enabled) == (APPLICATION_XIDS | {48}, frozenset({45}))
    assert odd == ("4x", "²", "-1")


@pytest.mark.parametrize(("disable", "enable", "nothing"), [("all", "", True), ("all", "48", False), ("", "", False)])
def test_reports_are_not_needed_if_no_xid_is_critical(disable: str, enable: str, nothing: bool) -> None:
    """An enabled Xid is critical again."""
    assert read_rules(disable, enable)[0].hears_nothing is nothing
