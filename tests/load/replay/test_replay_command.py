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
    """On stdout, with the progress elsewhere; the mean is that of the runs."""
    code = main(
        ["replay", "--trace", str(folder), "--policy", "binpack", "--seeds", "2", "--first-seed", "5", "--json"]
    )
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


def test_replays_in_parallel_are_those_of_each_seed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """Several seeds are replayed in processes of their own, one seed in this one."""

    def shown(*flags: str) -> list[tuple[int, float, int]]:
        assert main(["replay", "--policy", "spread", "--json", *flags]) == 0
        found = json.loads(capsys.readouterr().out)
        return [(run["seed"], run["allocation_ratio_percent"], run["placed"]) for run in found["runs"]]

    assert shown("--seeds", "2") == [*shown("--seeds", "1"), *shown("--seeds", "1", "--first-seed", "1")]


def test_the_table_has_the_others_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best first; a dash if nothing is published."""
    assert main(["replay", "--trace", str(folder), "--policy", "binpack", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert re.split(r" {2,}", lines[2])[0] == "binpack (ours)"
    assert re.split(r" {2,}", lines[3]) == ["Random", "85.02 ± 0.27", "-", "-", "-", "-", "87.47 ± 0.31"]
    assert not any("Elsewhere" in line for line in lines)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (
            ["--workload", "none"],
            "openb_pod_list_none.csv: No such file or directory; workloads of this folder: default",
        ),
        (["--trace", "/nonexistent"], "/nonexistent/openb_node_list_gpu_node.csv: No such file or directory"),
    ],
)
def test_what_cannot_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], why: str
) -> None:
    """The command ends with the exit code 1 before it replays anything."""
    flags = flags if "--trace" in flags else ["--trace", str(folder), *flags]
    assert main(["replay", "--seeds", "1", *flags]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"replay: {folder}/{why}" if why.startswith("openb") else f"replay: {why}"
    ]


def test_figures_that_are_none_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file that has no figures."""
    (folder / "published_allocation_ratio.csv").write_text("workload,policy\nopenb_pod_list_default,Random\n")

    assert main(["replay", "--trace", str(folder), "--seeds", "1"]) == 1
    assert "published_allocation_ratio.csv: not the figures" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--seeds", "0"], ["--policy", "best"], ["--first-seed", "-1"]])
def test_wrong_flags_are_a_usage_error(flags: list[str]) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *flags])
    assert ended.value.code == 2
