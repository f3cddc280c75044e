"""Promises of e2e.report.verdict_plugin: pytest runs, as a process of its own, over cases of the test's making."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from e2e.report.verdict_table import Table, from_json

ROOT = Path(__file__).parents[2]
CONFTEST = """
from pathlib import Path
import pytest
from e2e.report import verdict_plugin as verdicts

def pytest_addoption(parser):
    group = parser.getgroup("x")
    group.addoption("--cluster", default="embedded")
    group.addoption("--target", default="gpushare")
    group.addoption("--kubernetes", default="1.36")
    verdicts.add_options(group)

def pytest_configure(config):
    config.pluginmanager.register(verdicts.Verdicts(config, Path(__file__).parent), verdicts.NAME)
    config.pluginmanager.register(verdicts.Recorder())

@pytest.fixture
def cluster(request):
    request.config.stash[verdicts.KUBERNETES] = "v1.36.3"
    return 1

@pytest.fixture
def sides(): return 2

@pytest.fixture
def broken(cluster): raise RuntimeError("no cluster here")

@pytest.fixture
def breaks_later(cluster):
    yield
    raise RuntimeError("left something behind")
"""
CASES = """
import sys
from pathlib import Path

import pytest
from clusters.api.exchanges import note
from clusters.processes.program import Program

async def ready(): return True

@pytest.mark.promise("DP-001", "DP-002")
def test_passes(cluster): pass

@pytest.mark.parametrize("n", [1, 2])
def test_fails_once(cluster, n): assert n == 1, "two is too many"

def test_skips(cluster): pytest.skip("not on this machine")

@pytest.mark.skip("not here")
def test_is_never_called(cluster): pass

@pytest.mark.xfail(reason="known", strict=True)
def test_is_known(cluster): assert False

def test_has_no_cluster(broken): pass

def test_breaks_in_the_end(breaks_later): pass

def test_fails_and_breaks(breaks_later): assert False, "first"

def test_compares(sides): pass

def test_of_the_judge(): pass

def test_crashes(cluster): {}["x"]

@pytest.mark.skip("not applicable: target x does not declare slots")
def test_is_not_applicable(cluster): pass

async def test_has_evidence(cluster, tmp_path):
    \"\"\"The answer has all nodes.\"\"\"
    program = Program("extender", [sys.executable, "-c", "print('I was here', flush=True)"], {"PATH": "/"}, tmp_path / "log")
    await program.launch(ready)
    await program.ended()
    note("GET /inspect", None, 200, b"{}")
    note("GET /inspect", None, 200, b"{1}")
    note("POST /filter", b'{"Pod": 1}', 200, b'["a"]')
    answer = {"nodes": ["a"] * 40}
    assert answer == {"nodes": ["a"] * 40 + ["b"]}
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of pytest over the cases there; the table goes to ``artefacts`` there."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = promise\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    return done.returncode, done.stdout + done.stderr


def table_in(folder: Path) -> Table:
    """The table that was written."""
    return from_json((folder / "artefacts" / "verdicts.json").read_text())


WORDS = {
    "test_passes": ("passed", ""),
    "test_fails_once[1]": ("passed", ""),
    "test_fails_once[2]": ("failed", "AssertionError: two is too many"),
    "test_skips": ("skipped", "not on this machine"),
    "test_is_never_called": ("skipped", "not here"),
    "test_is_known": ("skipped", "fails, as expected: known"),
    "test_is_not_applicable": ("not applicable", "not applicable: target x does not declare slots"),
    "test_has_no_cluster": ("error", "RuntimeError: no cluster here"),
    "test_breaks_in_the_end": ("error", "RuntimeError: left something behind"),
    "test_fails_and_breaks": ("failed", "AssertionError: first"),
    "test_crashes": ("error", "KeyError: 'x'"),
    "test_compares": ("passed", ""),
}


def test_a_run_writes_the_verdict_of_each_case(tmp_path: Path) -> None:
    """Whatever happens in set-up, call or tear-down, and in which process; what is expected to fail is no pass, and a case
    that crashes is no failure. The counts end the output; ids, cluster and release are properties in a JUnit file.
    """
    code, output = run(tmp_path, "-n", "2", "--junitxml", str(tmp_path / "junit.xml"))
    table = table_in(tmp_path)
    found = {name.partition("::")[2]: case for name, case in table.cases.items()}
    evidence = found.pop("test_has_evidence").verdicts["gpushare on embedded"].evidence

    assert code == 1
    assert found["test_compares"].verdicts.keys() == {"gpushare on embedded", "gpushare on controlplane"}
    assert found["test_passes"].promises == ("DP-001", "DP-002")
    verdicts = {name: case.verdicts["gpushare on embedded"] for name, case in found.items()}
    assert {name: (verdict.outcome, verdict.reason) for name, verdict in verdicts.items()} == WORDS
    assert table.columns["gpushare on embedded"].kubernetes == "v1.36.3"
    assert "gpushare on embedded: fail: 3 passed, 3 failed, 3 error, 3 skipped, 1 not applicable; first " in output
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    noted = {case.get("name"): [(p.get("name"), p.get("value")) for p in case.iter("property")] for case in cases}
    expected = [
        ("cluster", "embedded"),
        ("case-id", "DP-001"),
        ("case-id", "DP-002"),
        ("text", ""),
        ("kubernetes", "v1.36.3"),
    ]
    assert (noted["test_passes"], noted["test_of_the_judge"]) == (expected, [])

    assert evidence is not None
    assert '>       assert answer == {"nodes": ["a"] * 40 + ["b"]}\nE ' in evidence.account
    assert evidence.requests == ("GET /inspect\n-> 200 {1}", 'POST /filter\n{"Pod": 1}\n-> 200 ["a"]')
    assert evidence.logs == {"extender": "I was here"}
    assert evidence.again.endswith("-m pytest test_cases.py::test_has_evidence --cluster embedded --target gpushare")
    assert f"again: {evidence.again}" in output


def test_a_case_that_ends_its_process_is_an_error(tmp_path: Path) -> None:
    """pytest-xdist reports it without the facts of the case."""
    (tmp_path / "e2e").mkdir()
    (tmp_path / "e2e" / "test_ends.py").write_text("import os\ndef test_ends(cluster): os._exit(1)\n")
    run(tmp_path, "-n", "1", "--max-worker-restart", "0", "-k", "test_ends")
    verdict = table_in(tmp_path).cases["e2e/test_ends.py::test_ends"].verdicts["gpushare on embedded"]

    assert verdict.outcome == "error"
    assert "crashed while running" in verdict.reason


@pytest.mark.parametrize("words", [("-k", "judge"), ("-k", "no_such_case"), ("-k", "judge", "--must-judge", "1")])
def test_a_run_without_cases_has_no_report_to_write(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A run without cases on a cluster writes no table, and fails if it was to judge promises."""
    code, output = run(tmp_path, *words)

    assert [code == 1, "--must-judge asks for 1" in output] == ["--must-judge" in words] * 2
    assert not (tmp_path / "artefacts").exists() or "--must-judge" in words


@pytest.mark.parametrize(("asked", "code"), [("2", 0), ("3", 1)])
def test_an_unwritable_table_changes_no_verdict(tmp_path: Path, asked: str, code: int) -> None:
    """The error is reported; the exit code is the cases', and that of a run which judges fewer promises than are asked for."""
    (tmp_path / "artefacts").write_text("a file, not a folder")
    result, output = run(tmp_path, "-k", "test_passes", "--must-judge", asked)

    assert result == code
    assert "artefacts cannot be written" in output
    assert (f"must keep; --must-judge asks for {asked}" in output) == bool(code)
