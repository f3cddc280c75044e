"""Each promise has its tests, and each test has a short name and a docstring."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import PurePath

import pytest

from e2e.promises import CONFORMANCE, is_named, load, wanted
from tests.tracked_files import ROOT, tracked

LONGEST_NAME = 60


def faults_of(source: str) -> list[str]:
    """The tests of a module with a name that is too long, or without a docstring."""
    tests = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    ]
    return [test.name for test in tests if len(test.name) > LONGEST_NAME or ast.get_docstring(test) is None]


def test_every_test_has_a_short_name_and_a_docstring() -> None:
    """A reader of a report learns the promise from both."""
    modules = [name for name in tracked() if PurePath(name).match("test_*.py")]
    assert len(modules) > 100
    faults = {name: faults_of((ROOT / name).read_text()) for name in modules}

    assert {name: found for name, found in faults.items() if found} == {}


def test_a_test_without_the_form_is_found() -> None:
    """Long names and missing docstrings are named, in classes too."""
    long = f"test_{'x' * LONGEST_NAME}"
    source = f'class A:\n    def test_a(self): pass\nasync def {long}():\n    "Text."\ndef test_b():\n    "Text."\n'

    assert faults_of(source) == [long, "test_a"]


MARK = "pytest.mark.promise"


def ids_by_test() -> dict[str, list[str]]:
    """The tests of cases and programs, as pytest names them without parameters, with the ids that their markers name."""
    found = {}
    for path in (*ROOT.glob("e2e/**/test_*.py"), *ROOT.glob("tests/**/test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                marks = [
                    one for one in node.decorator_list if isinstance(one, ast.Call) and ast.unparse(one.func) == MARK
                ]
                ids = [str(ast.literal_eval(one)) for mark in marks for one in mark.args]
                found[f"{path.relative_to(ROOT).as_posix()}::{node.name}"] = ids
    return found


def test_every_promise_is_proved_and_every_proof_is_of_one() -> None:
    """Each id of the table has a test, each marker has an id of the table, and the original's defects are all there."""
    rows, tests = load(), ids_by_test()
    marked = {one for ids in tests.values() for one in ids}
    named = {(row.id, entry): any(is_named(test, entry) for test in tests) for row in rows for entry in row.cases}

    assert len(marked) > 50
    assert marked - {row.id for row in rows} == set()
    assert [entry for entry, has_tests in named.items() if not has_tests] == []
    assert [row.id for row in rows if not row.cases and row.id not in marked] == []
    assert [row.id for row in rows if row.level == "defect"] == [f"D{number:02}" for number in range(1, 31)]


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
