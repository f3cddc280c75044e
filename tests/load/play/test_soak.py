"""The shape ``soak``: what it judges, and one short run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.load_commands import CLUSTERS
from load.play import soak
from load.play.soak import promises


def a_run(
    *,
    mib_an_hour: float = 0.0,
    drift: float = 0.0,
    failures: int = 0,
    failed: int = 0,
    rate: int = 40,
    jump: int = 300,
    samples: int = 1800,
) -> dict[str, Any]:
    """Half an hour with a sample a second, an audit every half minute, and memory that jumps in this second."""
    found = [
        {"at": second, "cpu_seconds": 1.0, "rss_mib": (60 if second < jump else 80) + mib_an_hour * second / 3600}
        | (
            {"drift_units": drift * (second == 899), "audits": second / 30, "failed_audits": failed}
            if second % 30 == 29
            else {}
        )
        for second in range(samples)
    ]
    return {
        "order": {"rate": rate, "seconds": 1800},
        "outcome": {"samples": found, "counts": {"running": 2000}},
        "rows": [{"extender": "gpushare", "verb": "filter", "failures": failures}],
    }


@pytest.mark.parametrize(
    ("run", "what"),
    [
        # Memory that is filled at first and then stays is flat.
        (a_run(mib_an_hour=3.9), []),
        (a_run(mib_an_hour=5), ["memory"]),
        (a_run(drift=1), ["units"]),
        (a_run(failures=1), ["questions"]),
        (a_run(failed=1), ["audits"]),
        # The tables fill later if few pods come a second: the extender remembers 10,000 pods that ended, and 2,000 pods of the
        # beginning are replaced.
        (a_run(rate=20, jump=599), []),
        (a_run(rate=20, jump=700), ["memory"]),
        # Too few come in the whole of it.
        (a_run(rate=9), ["memory"]),
        # An amount that was not measured is not kept.
        (a_run(samples=1), ["memory", "units", "audits"]),
    ],
)
def test_what_is_wrong_breaks_its_promise_alone(run: dict[str, Any], what: list[str]) -> None:
    """A leak, one audit of sixty that found something, one question."""
    assert [one.what.partition(" ")[0] for one in promises(run) if not one.is_kept] == what


@pytest.mark.exhaustive("a soak takes twenty seconds")
def test_a_short_soak_audits_the_book_and_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods come and go for some seconds; too few to show whether memory is flat, which is exit code 1."""
    # The extender audits its book after 12 seconds at the latest.
    monkeypatch.setattr(soak, "AUDIT_SECONDS", 10)
    flags = ["--seconds", "13", "--cluster", str(CLUSTERS / "nodes-100.yaml"), "-o", str(tmp_path)]
    assert main(["run", "--shape", "soak", *flags]) == 1

    run = json.loads((tmp_path / "soak" / "load.json").read_text())
    assert [one["kept"] for one in run["verdicts"]] == [False, True, True, True, True]
    assert "not measured" in run["verdicts"][0]["text"]
    assert max(one.get("audits", 0) for one in run["outcome"]["samples"]) >= 1
