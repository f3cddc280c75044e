"""``python -m load soak``: what it judges, and one short run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.play.command import CLUSTERS
from load.play.soak import growth, promises


def a_run(
    *, mib_an_hour: float = 0.0, drift: float = 0.0, over_booked: int = 0, failures: int = 0, failed: int = 0
) -> dict[str, Any]:
    """Half an hour with a sample a second, an audit every half minute, and memory that jumps at first."""
    samples = [
        {"at": second, "cpu_seconds": 1.0, "rss_mib": (60 if second < 300 else 80) + mib_an_hour * second / 3600}
        | (
            {"drift_units": drift * (second == 900), "audits": second / 30, "failed_audits": failed}
            if second % 30 == 0
            else {}
        )
        for second in range(1800)
    ]
    counts = {"created": 1, "binds": 1, "ended": 1, "over_booked": over_booked}
    rows = [{"extender": "gpushare", "verb": "filter", "failures": failures}]
    return {"outcome": {"samples": samples, "counts": counts}, "rows": rows}


def broken(run: dict[str, Any]) -> list[str]:
    """The first word of each promise that is."""
    return [one.what.partition(" ")[0] for one in promises(run) if not one.is_kept]


def test_what_is_promised_is_kept_where_nothing_is_wrong() -> None:
    """Memory that is filled at first and then stays is flat."""
    assert broken(a_run()) == []
    assert broken(a_run(mib_an_hour=3.9)) == []


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (a_run(mib_an_hour=5), "memory"),
        (a_run(drift=1), "units"),
        (a_run(over_booked=1), "cards"),
        (a_run(failures=1), "questions"),
        (a_run(failed=1), "audits"),
    ],
)
def test_what_is_wrong_breaks_its_promise_alone(run: dict[str, Any], what: str) -> None:
    """A leak, one audit of sixty that found something, one card for a moment, one question."""
    assert broken(run) == [what]


def test_what_was_not_measured_is_not_kept() -> None:
    """No audit came to its end, and the extender was gone before memory was seen twice."""
    run = a_run()
    run["outcome"]["samples"] = run["outcome"]["samples"][1:2]
    assert growth(run["outcome"]["samples"]) is None
    assert broken(run) == ["memory", "units", "audits"]


@pytest.mark.timeout(180)
def test_a_short_soak_audits_the_book_and_finds_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Pods come and go for some seconds; whether memory is flat so few cannot tell, which is exit code 1."""
    flags = [
        "--seconds",
        "22",
        "--audit-seconds",
        "10",
        "--cluster",
        str(CLUSTERS / "nodes-100.yaml"),
        "-o",
        str(tmp_path),
    ]
    assert main(["soak", *flags]) == 1

    run = json.loads((tmp_path / "load.json").read_text())
    assert [one["kept"] for one in run["verdicts"][1:]] == [True, True, True, True]
    assert "not measured" in run["verdicts"][0]["text"]
    assert max(one.get("audits", 0) for one in run["outcome"]["samples"]) >= 1
    assert "cards that the API showed over-booked: 0, at most 0" in capfd.readouterr().out


def test_audits_that_the_extender_refuses_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is started."""
    with pytest.raises(SystemExit) as ended:
        main(["soak", "--audit-seconds", "3"])
    assert ended.value.code == 2
    assert "'3' is less than 10" in capsys.readouterr().err
