"""Promises of the files of manifests: which are read, and what their text may be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpushare.errors import GpushareError, UsageError
from gpushare.kubectl_gpushare.manifest_files import read

POD = "kind: Pod\nmetadata: {name: NAME}\nspec: {}\n"


def titles(*names: str, given: str = "", recursive: bool = False) -> list[str]:
    """The objects that are placed, without their kind."""
    found = read(names, io.StringIO(given), recursive=recursive)
    return [one.title.removeprefix("pod/") for one in found.workloads]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests, and what is none."""
    (tmp_path / "below").mkdir()
    for name in ("b.yaml", "a.json", "c.yml", "below/d.yaml", "notes.txt", "extra.pod"):
        (tmp_path / name).write_text(POD.replace("NAME", Path(name).stem))
    return tmp_path


def test_files_folders_and_patterns(folder: Path) -> None:
    """In kubectl's order: a folder's files by name, those below it with -R alone, and a named file whatever its ending."""
    assert titles(str(folder)) == ["a", "b", "c"]
    assert titles(str(folder), recursive=True) == ["a", "b", "d", "c"]
    assert titles(str(folder / "extra.pod"), "-", str(folder / "*.y*ml"), given=POD) == ["extra", "NAME", "b", "c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# only\n---\n---\n" + POD + "---\n# end\n", ["NAME"]),
        ('{"kind": "Pod", "metadata": {"name": "a"}}\n{"kind":\t"Pod"}', ["a", "unnamed"]),
        ('{"kind": "Pod"}\n---\n{kind: Pod}\n', ["unnamed", "unnamed"]),
        ("kind: List\nitems: [{kind: Pod}]\r\n", ["unnamed"]),
        ("kind: Pod\nmetadata: {name: 2026-01-01}", ["2026-01-01"]),
    ],
)
def test_yaml_and_json_as_kubectl_reads_them(text: str, found: list[str]) -> None:
    """Several documents, JSON objects one after the other, comments, and a date that is a text."""
    assert titles("-", given=text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "-: nothing to place: there is no object. Placed are the pods of Pod, Deployment"),
        ("kind: Service\nmetadata: {name: s}", "-: nothing to place: service/s has no pods that simulate knows of."),
        ("kind: A\nspec: {containers: [{name: c}]}", "-: nothing to place: a/unnamed: only its own controller knows"),
        ("a: [", "-: it is neither YAML nor JSON at line 1, column 5: expected"),
        ("a: !!int x", "-: it is neither YAML nor JSON: "),
        ("kind: Pod\nspec: {a: &a [*a]}", "-: it is neither YAML nor JSON: the alias 'a' is inside what it names"),
        ("[" * 3000, "-: it is nested too deeply"),
        ("text", "-: a document of the manifest is no object of Kubernetes: it has no kind"),
    ],
)
def test_a_text_that_makes_no_sense_is_refused(text: str, why: str) -> None:
    """The error has the file and the reason."""
    with pytest.raises(UsageError) as refused:
        titles("-", given=text)

    assert str(refused.value).startswith(why)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    """It may be absent, no text, or an address of the web; a folder may have no manifest, and a pattern no file."""
    (folder / "image.yaml").write_bytes(b"\xff\xfe")
    (folder / "empty").mkdir()
    cases = {
        str(folder / "absent.yaml"): f"the path '{folder}/absent.yaml' does not exist",
        str(folder / "empty"): f"no file of the folder {folder}/empty ends with .yaml, .yml or .json",
        str(folder / "x*"): f"no file matches '{folder}/x*'",
        str(folder / "image.yaml"): f"{folder}/image.yaml: it is no UTF-8",
        "https://example.com/a.yaml": "https://example.com/a.yaml is a URL, and simulate reads files alone: curl",
    }
    for name, why in cases.items():
        with pytest.raises(GpushareError) as refused:
            titles(name)
        assert str(refused.value).startswith(why)
