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
    """On stdout, with the progress elsewhere; the mean is that of the runs, each of which is the same in a process of its own."""
    flags = ["replay", "--trace", str(folder), "--policy", "binpack", "--json"]
    code = main([*flags, "--seeds", "2", "--first-seed", "5"])
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
    (alone,) = json.loads(capsys.readouterr().out)["runs"]
    assert alone | {"seconds": 0} == found["runs"][1] | {"seconds": 0}


def test_the_table_has_the_others_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best first; a dash if nothing is published."""
    assert main(["replay", "--trace", str(folder), "--policy", "binpack", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert re.split(r" {2,}", lines[2])[0] == "binpack (ours)"
    assert re.split(r" {2,}", lines[3]) == ["Random", "85.02 ± 0.27", "-", "-", "-", "-", "87.47 ± 0.31"]
    assert not any("Elsewhere" in line for line in lines)


@pytest.mark.parametrize(
    ("flags", "published", "why"),
    [
        (["--workload", "none"], PUBLISHED, "No such file or directory; workloads of this folder: default"),
        (
            ["--trace", "/nonexistent"],
            PUBLISHED,
            "/nonexistent/openb_node_list_gpu_node.csv: No such file or directory",
        ),
        ([], "workload,policy\nopenb_pod_list_default,Random\n", "published_allocation_ratio.csv: not the figures"),
    ],
)
def test_what_cannot_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: list[str], published: str, why: str
) -> None:
    """The command ends with the exit code 1 before it replays anything; the line names the file."""
    (folder / "published_allocation_ratio.csv").write_text(published)
    assert main(["replay", "--seeds", "1", "--trace", str(folder), *flags]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("replay: ")
    assert why in line


@pytest.mark.parametrize(
    "flags", [["--seeds", "0"], ["--policy", "best"], ["--first-seed", "-1"], ["--wire", "--expect", "seen"]]
)
def test_wrong_flags_are_a_usage_error(flags: list[str]) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *flags])
    assert ended.value.code == 2
