"""Promises of e2e.promises."""

from __future__ import annotations

import subprocess
import sys

import pytest

from e2e.promises import CONFORMANCE, ROOT, Promise, findings, load, proofs, wanted

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
