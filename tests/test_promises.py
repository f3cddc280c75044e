"""The form of a test: a short name, and a docstring."""

from __future__ import annotations

import ast
from pathlib import PurePath

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
