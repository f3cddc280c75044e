"""The table of faulty implementations is whole: each fault is known and acted, each case exists and really catches it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.reference import reference_faults
from e2e.reference.faulty_implementations import ROOT, FaultyImplementation, load, play
from e2e.reference.reference_faults import FAULTS

REFERENCES = ROOT / "e2e" / "reference"
# Traits of the original's dialect, which are wrong only together with it.
TRAITS = {"original-texts", "original-ids", "original-options"}
# D16 is not seen from outside; D25 in manifests and D28 are no program's.
ACTED_DEFECTS = {f"d{number:02}" for number in range(1, 31)} - {"d16", "d28"}


def cases_in(path: Path) -> set[str]:
    """The names of a file's cases."""
    tree = ast.parse(path.read_text())
    return {
        item.name
        for item in tree.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test_")
    }


def test_each_faulty_implementation_has_a_name_and_a_case() -> None:
    """At least forty, no name twice, a sentence each; the file of its case has such a case."""
    found = load()
    names = [one.name for one in found]

    assert len(names) == len(set(names)) >= 40
    assert all(one.wrong.endswith(".") and one.wrong[0].isupper() for one in found)
    for one in found:
        path, _, case = one.case.partition("::")
        assert case.partition("[")[0] in cases_in(ROOT / path), one.name


def test_each_fault_is_acted_and_each_defect_has_one() -> None:
    """Faults are of their program; none is left that no faulty implementation acts; D01 to D30 are among them."""
    found = load()
    for program, known in FAULTS.items():
        assert known - TRAITS == {one.name for one in found if one.program == program}
    assert {one.name[:3] for one in found if re.match(r"d\d\d-", one.name)} == ACTED_DEFECTS


@pytest.mark.parametrize("program", sorted(FAULTS))
def test_each_fault_stands_in_the_code_of_the_references(program: str) -> None:
    """A fault that no line asks for makes no program wrong."""
    code = "\n".join(path.read_text() for path in REFERENCES.glob("reference_*.py") if path.stem != "reference_faults")

    assert not [name for name in FAULTS[program] if f'"{name}"' not in code]


def test_references_know_nothing_of_the_product() -> None:
    """They import their own modules, libraries, and of the harness its client and the generated gRPC messages alone."""
    foreign = set()
    for path in REFERENCES.glob("reference_*.py"):
        for item in ast.walk(ast.parse(path.read_text())):
            if isinstance(item, ast.ImportFrom) and item.module:
                foreign.add(item.module)
    own = {name for name in foreign if name.split(".")[0] in ("gpushare", "clusters", "e2e", "fake_nvml", "load")}

    assert not [
        name for name in own if not name.startswith(("e2e.reference", "clusters.api.", "clusters.kubelet.proto"))
    ]


def test_a_fault_that_no_program_knows_is_refused() -> None:
    """A misspelt faulty implementation would be an honest one."""
    words = [sys.executable, "-m", "e2e.reference.reference_plugin"]
    variables = {reference_faults.VARIABLE: "d04-single-card-to-anyone,nope"}
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=variables)

    assert (ended.returncode, ended.stderr) == (1, "REFERENCE_FAULTS: unknown faults nope\n")


@pytest.mark.exhaustive("each starts a cluster of its own; python -m e2e faulty plays all")
@pytest.mark.parametrize("name", ["off-by-one-unit", "never-assigned"])
async def test_a_faulty_implementation_is_caught_by_its_case(name: str) -> None:
    """One of the extender and one of the plugin."""
    (faulty,) = [one for one in load() if one.name == name]

    assert await play(faulty) == ""


@pytest.mark.exhaustive("it starts a cluster of its own")
async def test_an_honest_reference_is_no_faulty_implementation() -> None:
    """The player reports a case that has passed, with its output."""
    (case,) = (one.case for one in load() if one.name == "off-by-one-unit")
    honest = FaultyImplementation("keys-in-exact-casing", "None.", "extender", case)

    assert (await play(honest)).startswith(f"not caught: {case} passed")
