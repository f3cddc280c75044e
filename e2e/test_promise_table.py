"""Promises of e2e.promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusters.provider import ClusterError
from e2e.promises import CONFORMANCE, ROOT, Promise, findings, ids_by_test, is_named, load, proofs, wanted

TEST = "e/test_a.py::test_one"


def test_every_promise_is_proved_and_every_proof_is_of_one() -> None:
    """Each id of the table has a test, each marker has an id of the table, and the original's defects are all there."""
    rows = load()

    assert findings(rows, proofs()) == []
    assert [row.id for row in rows if row.level == "defect"] == [f"D{number:02}" for number in range(1, 31)]


@pytest.mark.parametrize(
    ("rows", "proved", "finding"),
    [
        ([Promise("X-001", "x")], {}, "X-001: no test proves it"),
        ([], {"X-002": (TEST,)}, f"X-002: no such promise: {TEST}"),
        ([Promise("X-001", "x", cases=("e/b",), proved_by=(TEST,))], {}, "X-001: e/b names no test"),
    ],
    ids=["proof", "promise", "entry"],
)
def test_a_table_that_proves_nothing_is_found(
    rows: list[Promise], proved: dict[str, tuple[str, ...]], finding: str
) -> None:
    """The check of the table can fail."""
    assert findings(rows, proved) == [finding]


def test_markers_are_read_from_the_source() -> None:
    """Functions and methods have them, with several ids, beside other decorators."""
    source = """
@pytest.mark.promise("X-001", "X-002")
@pytest.mark.parametrize("n", [1])
async def test_a(n): pass

class TestB:
    @pytest.mark.promise("X-001")
    def test_c(self): pass

def helper(): pass

def test_d(): pass
"""
    assert [*ids_by_test(source)] == [("test_a", ("X-001", "X-002")), ("TestB::test_c", ("X-001",)), ("test_d", ())]


@pytest.mark.parametrize(
    ("entry", "named"), [("e", True), ("e/test_a.py", True), (TEST, True), ("e/test_a", False), (f"{TEST}_two", False)]
)
def test_an_entry_names_a_test_its_file_or_its_folder(entry: str, named: bool) -> None:
    """A test with parameters is named like one without, and a prefix of a name names nothing."""
    assert [is_named(test, entry) for test in (TEST, f"{TEST}[x]")] == [named, named]


def test_a_row_has_the_defaults_of_its_letters(tmp_path: Path) -> None:
    """A row of one line has the defaults of the letters that its id begins with; fields of its own override them."""
    (tmp_path / "t.yaml").write_text(
        "defaults: {X: {profile: API, source: s}}\npromises:\n  X-001: x\n  X-002: {text: y, level: may, needs: [slots]}\n"
    )
    assert load(tmp_path / "t.yaml") == [
        Promise("X-001", "x", "API", "must", "s"),
        Promise("X-002", "y", "API", "may", "s", ("slots",)),
    ]


@pytest.mark.parametrize(
    "text", ["X-001: x", "promises: {X-001: [x]}", "promises: {X-001: {txt: x}}", "promises: {X-001: {needs: [nope]}}"]
)
def test_a_table_of_another_form_is_an_error(tmp_path: Path, text: str) -> None:
    """A typo does not pass for an empty row."""
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ClusterError, match="not a table of promises"):
        load(tmp_path / "t.yaml")


def collected(*arguments: str) -> list[str]:
    """The lines that a collection prints, without a run."""
    argv = [sys.executable, "-m", "pytest", "e2e", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return (done.stdout + done.stderr).splitlines()


def test_a_profile_selects_the_cases_of_its_promises() -> None:
    """Cases that the table names are there, those of other profiles are not, and an unknown name is an error."""
    found = collected("--profile", "device-plugin,OURS")

    assert any("e2e/device_plugin/test_plugin_registers.py" in line for line in found)
    assert any("e2e/slots/test_exact_mib.py" in line for line in found)
    assert not any("e2e/extender/test_strangers.py" in line for line in found)
    assert wanted("API") == {"API"}
    assert wanted("conformance, CLI") == {*CONFORMANCE}
    assert "OURS" not in CONFORMANCE
    with pytest.raises(pytest.UsageError, match="known are EXTENDER"):
        wanted("EXTENDERS")
