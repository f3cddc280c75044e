"""Promises of clusters.embedded.apiserver.list_options."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.list_options import (
    check_list,
    check_watch,
    number,
    unreadable_elsewhere,
    unreadable_in_list,
    version_of,
)
from tests.clusters.embedded.apiserver.samples import refused

MATCH = "resourceVersionMatch"


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({MATCH: "Exact"}, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({MATCH: "Exact", "resourceVersion": "0"}, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
        ({MATCH: "About", "resourceVersion": "5"}, 'Unsupported value: "About"'),
        ({MATCH: "Exact", "resourceVersion": "5", "continue": "x"}, "forbidden when continue is provided"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused(params: dict[str, str], text: str) -> None:
    """422, in the words of the real server."""
    assert text in refused(422, lambda: check_list(params)).message


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({MATCH: "NotOlderThan"}, "forbidden for watch unless sendInitialEvents is provided"),
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        ({"sendInitialEvents": "true", MATCH: "Exact"}, 'supported values: "NotOlderThan"'),
    ],
)
def test_a_watch_that_contradicts_itself_is_refused(params: dict[str, str], text: str) -> None:
    """422, with every contradiction."""
    assert text in refused(422, lambda: check_watch(params)).message


def test_what_makes_sense_is_taken() -> None:
    """The values that clients send."""
    check_list({})
    check_list({MATCH: "Exact", "resourceVersion": "5"})
    check_watch({"sendInitialEvents": "true", MATCH: "NotOlderThan"})
    assert version_of({}, unreadable_in_list) is None
    assert version_of({"resourceVersion": "007"}, unreadable_in_list) == 7
    assert (number({}, "limit"), number({"limit": "-3"}, "limit")) == (0, -3)


def test_a_version_that_is_no_number_is_refused() -> None:
    """400 in a list; 500 without a reason elsewhere, as released servers have it."""
    params = {"resourceVersion": "x"}
    assert refused(400, lambda: version_of(params, unreadable_in_list)).reason == "BadRequest"
    assert refused(500, lambda: version_of(params, unreadable_elsewhere)).reason == ""
    refused(400, lambda: number({"limit": "x"}, "limit"))
