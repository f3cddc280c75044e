"""Is a test there? For tables that name their proofs."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def exists(test: str) -> bool:
    """Whether there is a test of that id, as pytest takes it, without parameters."""
    path, _, name = test.partition("::")
    return name in _tests_in(ROOT / path)


@cache
def _tests_in(path: Path) -> frozenset[str]:
    """The names of the test functions of a file, with their class if they have one."""
    if not path.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{one.name}"
                for one in node.body
                if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
            }
    return frozenset(names)
