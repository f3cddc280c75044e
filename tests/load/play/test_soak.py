"""The shape ``soak``: what it judges, one short run on each kind of API server, and the count of cards of the real one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clusters.controlplane.binaries import KWOK, cached, kwok, locate, minors
from clusters.provider import ClusterError
from load.__main__ import main
from load.load_commands import CLUSTERS
from load.play import soak
from load.play.soak import growth, promises
from load.play.soak_on_control_plane import SeenCards, rows
from load.simulated.simulated_world import Node


def a_run(
    *,
    mib_an_hour: float = 0.0,
    drift: float = 0.0,
    over_booked: int = 0,
    failures: int = 0,
    failed: int = 0,
    rate: int = 40,
    jump: int = 300,
) -> dict[str, Any]:
    """Half an hour with a sample a second, an audit every half minute, and memory that jumps in this second."""
    samples = [
        {"at": second, "cpu_seconds": 1.0, "rss_mib": (60 if second < jump else 80) + mib_an_hour * second / 3600}
        | (
            {"drift_units": drift * (second == 900), "audits": second / 30, "failed_audits": failed}
            if second % 30 == 0
            else {}
        )
        for second in range(1800)
    ]
    counts = {"created": 1, "binds": 1, "ended": 1, "over_booked": over_booked, "running": 2000}
    rows = [{"extender": "gpushare", "verb": "filter", "failures": failures}]
    return {
        "order": {"rate": rate, "seconds": 1800},
        "outcome": {"samples": samples, "counts": counts},
        "rows": rows,
    }


def broken(run: dict[str, Any]) -> list[str]:
    """The first word of each promise that is."""
    return [one.what.partition(" ")[0] for one in promises(run) if not one.is_kept]


@pytest.mark.parametrize(
    ("run", "what"),
    [
        # Memory that is filled at first and then stays is flat.
        (a_run(mib_an_hour=3.9), []),
        (a_run(mib_an_hour=5), ["memory"]),
        (a_run(drift=1), ["units"]),
        (a_run(over_booked=1), ["cards"]),
        (a_run(failures=1), ["questions"]),
        (a_run(failed=1), ["audits"]),
        # The tables fill later if few pods come a second: the extender remembers 10,000 pods that ended, and 2,000 pods of the
        # beginning are replaced.
        (a_run(rate=20, jump=599), []),
        (a_run(rate=20, jump=700), ["memory"]),
        (a_run(rate=20, mib_an_hour=5), ["memory"]),
        # Too few come in the whole of it.
        (a_run(rate=9), ["memory"]),
    ],
)
def test_what_is_wrong_breaks_its_promise_alone(run: dict[str, Any], what: list[str]) -> None:
    """A leak, one audit of sixty that found something, one card for a moment, one question."""
    assert broken(run) == what


def test_what_was_not_measured_is_not_kept() -> None:
    """No audit came to its end, and the extender was gone before memory was seen twice."""
    run = a_run()
    run["outcome"]["samples"] = run["outcome"]["samples"][1:2]
    assert growth(run["outcome"]["samples"], 0) is None
    assert broken(run) == ["memory", "units", "audits"]


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


def test_a_short_soak_with_the_real_scheduler_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods come, are bound by kube-scheduler, run because kwok reports it, and as many end; audits and cards are read."""
    try:
        locate(minors()[0], os.environ)
    except ClusterError as error:
        pytest.skip(str(error))
    if KWOK not in cached(kwok(), os.environ):
        pytest.skip("kwok is not built, which takes minutes: python -m load.real_scheduler --kwok builds it")
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("units: {1: 1, 4: 1}\npools: [{name: t4, nodes: 5, card: t4, cards: 2, pods: 4}]\n")
    monkeypatch.setattr(soak, "AUDIT_SECONDS", 10)
    flags = ["--provider", "controlplane", "--seconds", "13", "--rate", "4"]
    assert main(["run", "--shape", "soak", *flags, "--cluster", str(cluster), "-o", str(tmp_path)]) == 1

    run = json.loads((tmp_path / "soak" / "load.json").read_text())
    kept = {one["text"]: one["kept"] for one in run["verdicts"]}
    assert [text for text, is_kept in kept.items() if not is_kept] == [
        "BROKEN  memory grows, parts of it an hour: not measured, at most 0.05"
    ]
    counts = run["outcome"]["counts"]
    assert (counts["created"], counts["binds"]) == (52, 52)
    assert counts["ended"] > 0
    assert {"filter", "bind", "attempt scheduled"} <= {row["verb"] for row in run["rows"]}


def test_failures_are_the_extenders_and_the_schedulers_errors() -> None:
    """A pod that fits nowhere is no failure; an answer that is an error, and an attempt that ended in one, are."""
    requests, seconds = "gpushare_extender_requests_total", "gpushare_extender_request_duration_seconds"
    ours = (
        f'{requests}{{verb="bind",verdict="failed",reason="API server"}} 2.0\n'
        f'{requests}{{verb="bind",verdict="refused",reason="x"}} 5.0\n'
        f'{seconds}_bucket{{verb="bind",le="+Inf"}} 9.0\n{seconds}_sum{{verb="bind"}} 0.9\n'
    )
    attempt = "scheduler_scheduling_attempt_duration_seconds"
    theirs = "".join(
        f'{attempt}_bucket{{result="{result}",le="+Inf"}} {count}\n{attempt}_sum{{result="{result}"}} 1\n'
        for result, count in (("error", 3), ("unschedulable", 4))
    )
    found = {row["verb"]: (row["count"], row["failures"]) for row in rows(ours, theirs)}
    assert found == {"bind": (9, 2), "attempt error": (3, 3), "attempt unschedulable": (4, 0)}


def a_pod(name: str, units: int = 8, card: str | None = "0", node: str = "n1") -> dict[str, Any]:
    """Bound, unless ``node`` is empty."""
    return {
        "metadata": {"name": name, "annotations": {} if card is None else {"ALIYUN_COM_GPU_MEM_IDX": card}},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"aliyun.com/gpu-mem": str(units)}}}]},
    }


@pytest.mark.parametrize(
    ("seen", "over_booked", "without_a_card"),
    [
        ([("MODIFIED", a_pod("a")), ("MODIFIED", a_pod("b"))], 0, 0),
        # Counted once, however often the pod is seen.
        ([("MODIFIED", a_pod("a", 16)), *[("MODIFIED", a_pod("b", 1))] * 3], 1, 0),
        # A deleted pod leaves its room; one that is deleted unbound had none.
        (
            [
                ("ADDED", a_pod("a", 16)),
                ("DELETED", a_pod("w", node="")),
                ("DELETED", a_pod("a", 16)),
                ("ADDED", a_pod("b", 16)),
            ],
            0,
            0,
        ),
        # Its card is missing, is not one of the node's, or is no number; a pod that waits does not count.
        ([("MODIFIED", a_pod(f"p{card}", card=card)) for card in (None, "2", "-1", "x")], 0, 4),
        ([("ADDED", a_pod("waits", card=None, node=""))], 0, 0),
    ],
)
def test_cards_are_counted_as_the_watch_shows_them(
    seen: list[tuple[str, dict[str, Any]]], over_booked: int, without_a_card: int
) -> None:
    """A node has two cards of 16 units; a full card is not over-booked, and one unit more is."""
    cards = SeenCards([Node("n1", 2, 16)])
    for kind, pod in seen:
        cards.see(kind, pod)
    assert (cards.over_booked, cards.without_a_card) == (over_booked, without_a_card)
