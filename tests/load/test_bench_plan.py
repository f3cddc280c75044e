"""Flags of the bench, and what they ask for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from load.bench.bench_plan import PODS_A_NODE, read


def test_a_full_run_measures_everything_in_every_world() -> None:
    """All, half and none fit; short and long questions; quiet and with events; plain and over TLS."""
    plan = read([])
    assert plan.nodes == (1000, 5000, 15_000)
    for tls in (False, True):
        cells = plan.cells(15_000, with_tls=tls)
        assert {(cell.names, cell.fit, cell.events) for cell in cells} == {
            (names, fit, events) for names in (500, 15_000) for fit in ("all", "half", "none") for events in (0, 500)
        }


def test_a_quick_run_has_what_the_targets_need() -> None:
    """A quick run asks what the targets judge, and its world of 5,000 nodes has the 50,000 pods of the first sync."""
    plan = read(["--quick"])
    assert 5000 * PODS_A_NODE == 50_000
    assert 5000 in plan.nodes
    quiet = [(cell.names, cell.fit) for cell in plan.cells(5000, with_tls=False) if not cell.events]
    busy = [(cell.names, cell.fit) for cell in plan.cells(5000, with_tls=False) if cell.events]
    assert {(500, "half"), (5000, "half")} <= set(quiet)
    assert (500, "half") in busy
    assert plan.cells(1000, with_tls=True) == []
    assert {cell.fit for cell in plan.cells(5000, with_tls=True)} == {"half"}


def test_what_the_targets_judge_is_asked_without_a_pause_too() -> None:
    """A reader of a ratio sees what the pause does to it; with no pause there is nothing to compare."""
    for flags, pauses in ((["--quick"], [1.0, 0.0]), (["--pause-ms", "2.5"], [2.5, 0.0]), (["--pause-ms", "0"], [0.0])):
        plan = read(flags)
        cells = plan.cells(5000, with_tls=False)
        for names in (500, 5000):
            quiet = [one.pause_ms for one in cells if (one.names, one.fit, one.events) == (names, "half", 0)]
            assert quiet == pauses
        rest = (*(one for one in cells if one.fit != "half" or one.events), *plan.cells(5000, with_tls=True))
        assert {one.pause_ms for one in rest} == {plan.pause_ms}


def test_a_long_question_is_asked_less_often_in_a_quick_run() -> None:
    """A quick run asks a question of many names a quarter as often, so that it stays quick."""
    plan = replace(read(["--quick"]), questions=100)
    assert [plan.questions_of(cell) for cell in plan.cells(5000, with_tls=True)] == [100, 100, 25, 25]


def test_short_questions_of_a_small_world_are_not_asked_twice() -> None:
    """500 names of 500 nodes are all."""
    assert {cell.names for cell in read([]).cells(300, with_tls=False)} == {300}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--pause-ms", "-1"], "not a number of milliseconds"),
        (["--pause-ms", "nan"], "not a number of milliseconds"),
        (["--frobnicate"], "unrecognized"),
    ],
)
def test_flags_that_make_no_sense_end_with_2_and_the_reason(flags, said, capsys) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as ended:
        read(flags)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
