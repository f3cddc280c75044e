"""The pods that are expected to come, read from a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpushare.bounds import EXPECTED_PODS_BYTES
from gpushare.errors import UsageError
from gpushare.extender.follow.expected_pods import read_expected
from gpushare.model.forecast import PodClass
from gpushare.model.wishes import Wishes
from tests.counted import bytes_of


def written(folder: Path, text: str) -> Path:
    path = folder / "pods.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_line_is_a_class_and_equal_ones_add_up(tmp_path: Path) -> None:
    """Each line is a class, with the documented defaults for fields that it leaves out, and equal lines add up."""
    found = read_expected(
        written(
            tmp_path,
            """
            pods:
            - {gpu-mem: 4, count: 120}
            - {gpu-mem: 16, cards: 2, cpu: 500m, card-model: [T4, NVIDIA A100], card-model-not: [80GB], count: 2.5}
            - {gpu-mem: 4, cpu: 0.25}
            - {gpu-mem: 4, count: 3}
            """,
        )
    )
    wishes = Wishes(models=(" t4 ", " nvidia a100 "), banned_models=(" 80gb ",))
    assert dict(found.counts) == {
        PodClass(4): 123,
        PodClass(16, 2, 500, wishes): 2.5,
        PodClass(4, cpu_milli=250): 1,
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pods: []", "length >= 1"),
        ("", "Expected `object`"),
        ("pods: [{gpu-mem: 0}]", "$.pods[0].gpu-mem"),
        ("pods: [{gpu-mem: 1}, {gpu-mem: four}]", "$.pods[1].gpu-mem"),
        ("pods: [{gpu-mem: 1, gpu: 3}]", "unknown field `gpu`"),
        ("pods: [{gpu-mem: 1, cpu: lots}]", "'lots' is not a quantity"),
        ("pods: [{gpu-mem: 1, cpu: -1}]", "is negative"),
        ("pods: [{gpu-mem: 1, count: 0}]", "$.pods[0].count"),
        ("pods: [{gpu-mem: 1, card-model: ['-']}]", "no list of models"),
        ("pods: [", "line 1, column 8"),
        ("[" * 200_000, "nested too deeply"),
        (f"pods: [{{gpu-mem: 1, card-model: [{'a,' * 65}]}}]", "length <= 64"),
        (f"pods: [{{gpu-mem: 1, card-model: [{'a' * 129}]}}]", "length <= 128"),
        ("\x00", "pods.yaml"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    """In one line that names the flag and the file."""
    with pytest.raises(UsageError) as found:
        read_expected(written(tmp_path, text))
    assert says in str(found.value)
    assert str(found.value).startswith(f"--expected-pods: {tmp_path / 'pods.yaml'}: ")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("path", ["{folder}/none.yaml", "/dev/zero", "/dev/null", "/", "{folder}/pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, path: str) -> None:
    """/dev/zero never ends, and to open a pipe without a writer would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    path = path.format(folder=tmp_path)
    why = "No such file" if path.endswith("none.yaml") else "not a regular file"

    with pytest.raises(UsageError, match=f"--expected-pods: {path}: {why}"):
        read_expected(Path(path))


def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    """One byte more is refused, and a larger file is not read any further."""
    path = written(tmp_path, "#")
    os.truncate(path, 2**40)

    with pytest.raises(UsageError, match=r"pods\.yaml: a file of expected pods is limited to 524288 bytes"):
        read_expected(path)
    assert bytes_of(lambda: read_expected(path)) < 3 * EXPECTED_PODS_BYTES.most
