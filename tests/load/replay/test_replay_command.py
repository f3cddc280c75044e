"""``python -m load replay`` as a person calls it: a table, one object; and what cannot be is one clear line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from load.__main__ import main
from load.replay.trace import SAMPLE

PUBLISHED = """workload,policy,runs,arrived_pct,mean_allocated_pct,stdev
openb_pod_list_default,01-Random,10,90,85.02,0.27
openb_pod_list_default,01-Random,10,130,87.47,0.31
openb_pod_list_other,02-Elsewhere,10,130,99.00,0.31
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample, and figures to compare with."""
    for path in SAMPLE.glob("*.csv"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "published_allocation_ratio.csv").write_text(PUBLISHED)
    return tmp_path


def test_one_object_says_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with the progress elsewhere; the mean is that of the runs, each of which is the same in a process of its own.

    Without ``--json`` a table has the published policies beside, the best first, and a dash if nothing is published.
    """
    flags = ["replay", "--trace", str(folder), "--policy", "binpack"]
    code = main([*flags, "--seeds", "2", "--first-seed", "5", "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    ratios = [run["allocation_ratio_percent"] for run in found["runs"]]

    assert code == 0
    assert (found["workload"], found["policy"], found["seeds"]) == ("default", "binpack", [5, 6])
    assert found["allocation_ratio_percent"] == pytest.approx(sum(ratios) / 2, abs=1e-3)
    assert [point["arrived_percent"] for point in found["curve"]] == [90, 95, 100, 110, 120, 130]
    assert found["curve"][-1]["mean"] == found["allocation_ratio_percent"]
    assert list(found["published"]) == ["Random"]
    assert err.startswith("replay: replaying 220 pods on 24 nodes, 2 seeds")
    main([*flags, "--seeds", "1", "--first-seed", "6"])
    lines = capsys.readouterr().out.splitlines()
    rows = [re.split(r" {2,}", line) for line in lines[2:4]]
    figures = {row[0]: float(row[-1].partition(" ")[0]) for row in rows}
    assert figures == {"binpack (ours)": pytest.approx(ratios[1], abs=0.01), "Random": 87.47}
    assert [*figures.values()] == sorted(figures.values(), reverse=True)
    assert ["Random", "85.02 ± 0.27", "-", "-", "-", "-", "87.47 ± 0.31"] in rows
    assert not any("Elsewhere" in line for line in lines)
