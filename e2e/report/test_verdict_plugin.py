"""Promises of e2e.report.verdict_plugin: pytest runs, as a process of its own, over cases of the test's making."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from e2e.report.pages import from_json
from e2e.report.verdict_plugin import profiles_of
from e2e.report.verdict_table import Case, Table, Verdict

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
import pytest

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
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of pytest over the cases there; the table goes to ``artefacts`` there."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text(CASES)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = promise\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    return done.returncode, done.stdout + done.stderr


def table_in(folder: Path) -> Table:
    """The table that was written."""
    return from_json((folder / "artefacts" / "verdicts.json").read_text())


def test_a_run_writes_the_verdict_of_each_case(tmp_path: Path) -> None:
    """Whatever happens in set-up, call or tear-down; what is expected to fail is no pass. The counts end the output; id, cluster
    and release are properties in a JUnit file.
    """
    code, output = run(tmp_path, "--junitxml", str(tmp_path / "junit.xml"))
    table = table_in(tmp_path)
    found = {name.partition("::")[2]: case for name, case in table.cases.items()}

    assert code == 1
    assert found == {
        "test_passes": Case(("DP-001", "DP-002"), {"embedded": Verdict("passed")}),
        "test_fails_once[1]": Case((), {"embedded": Verdict("passed")}),
        "test_fails_once[2]": Case((), {"embedded": Verdict("failed", "AssertionError: two is too many")}),
        "test_skips": Case((), {"embedded": Verdict("skipped", "not on this machine")}),
        "test_is_never_called": Case((), {"embedded": Verdict("skipped", "not here")}),
        "test_is_known": Case((), {"embedded": Verdict("skipped", "fails, as expected: known")}),
        "test_has_no_cluster": Case((), {"embedded": Verdict("error", "RuntimeError: no cluster here")}),
        "test_breaks_in_the_end": Case((), {"embedded": Verdict("error", "RuntimeError: left something behind")}),
        "test_fails_and_breaks": Case((), {"embedded": Verdict("failed", "AssertionError: first")}),
        "test_compares": Case((), {"embedded": Verdict("passed"), "controlplane": Verdict("passed")}),
    }
    assert table.columns["embedded"].kubernetes == "v1.36.3"
    assert "embedded v1.36.3: 3 passed, 3 skipped, 2 failed, 2 error" in output
    cases = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    noted = {case.get("name"): [(p.get("name"), p.get("value")) for p in case.iter("property")] for case in cases}
    expected = [("profile", "embedded"), ("case-id", "DP-001"), ("case-id", "DP-002"), ("kubernetes", "v1.36.3")]
    assert (noted["test_passes"], noted["test_of_the_judge"]) == (expected, [])

    # Part of the suite on another cluster adds a column: the rest there did not run.
    code, _ = run(tmp_path, "--cluster", "kind", "-k", "test_passes")
    page = (tmp_path / "artefacts" / "verdicts.md").read_text()
    assert code == 0
    assert "| test_passes | DP-001 DP-002 | passed | not run | passed |" in page
    assert "| test_compares |  | passed | passed | not run |" in page


@pytest.mark.parametrize("arguments", [("--collect-only",), ("-k", "judge"), ("-k", "no_such_case")])
def test_a_run_without_cases_on_a_cluster_writes_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A run without cases on a cluster has no verdict to report, so it writes no table."""
    run(tmp_path, *arguments)

    assert not (tmp_path / "artefacts").exists()


def test_unwritable_table_is_reported_and_changes_no_verdict(tmp_path: Path) -> None:
    """The exit code is the cases'."""
    (tmp_path / "artefacts").write_text("a file, not a folder")
    code, output = run(tmp_path, "-k", "test_passes")

    assert code == 0
    assert "artefacts cannot be written" in output


@pytest.mark.parametrize(
    ("fixtures", "profiles"),
    [
        (("observer", "cluster"), ("kind",)),
        (("fault_cluster", "choices"), ("kind",)),
        (("bare", "bare_sides", "choices"), ("embedded", "controlplane")),
        (("sessions", "choices"), ("embedded", "controlplane")),
        (("tmp_path",), ()),
    ],
)
def test_the_columns_of_a_case_follow_from_its_fixtures(fixtures: tuple[str, ...], profiles: tuple[str, ...]) -> None:
    """One cluster, the two that are compared, or none."""
    assert profiles_of(fixtures, "kind") == profiles


def test_nothing_is_printed_from_beside_the_cases() -> None:
    """The process that prints reads ``e2e/conftest.py`` alone when pytest-xdist's run the cases; tables elsewhere were lost."""
    conftests = (ROOT / "e2e").glob("*/**/conftest.py")

    assert [path for path in conftests if "pytest_terminal_summary" in path.read_text()] == []
