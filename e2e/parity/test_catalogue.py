"""The catalogue and the table of differences keep their word."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.parity import catalogue, differences
from e2e.parity.catalogue import Row


def test_every_row_is_proved_or_a_known_difference() -> None:
    """And every test and every difference that it names is there."""
    assert catalogue.findings(catalogue.load(), differences.load()) == []


def test_every_difference_belongs_somewhere() -> None:
    """A row that no case names would be an excuse without a proof; the kubectl cases and the catalogue name them, too."""
    texts = [path.read_text() for path in Path(__file__).parents[1].rglob("*.py") if path != Path(__file__)]
    texts += [path.read_text() for path in Path(__file__).parents[1].rglob("*.yaml") if path != differences.TABLE]

    assert [row for row in differences.load() if not any(row in text for text in texts)] == []


@pytest.mark.parametrize(
    ("row", "finding"),
    [
        (Row("G1", "x"), "nothing proves it"),
        (Row("G1", "x", ("e2e/parity/test_catalogue.py::test_none",)), "no test"),
        (Row("G1", "x", ("e2e/none.py::test_none",)), "no test"),
        (Row("G1", "x", differs="none"), "no difference"),
    ],
)
def test_a_row_that_proves_nothing_is_found(row: Row, finding: str) -> None:
    """The check of the table can fail."""
    (found,) = catalogue.findings([row], {})

    assert finding in found


def test_a_row_of_another_form_is_an_error(tmp_path: Path) -> None:
    """A typo does not pass for an empty row."""
    (tmp_path / "t.yaml").write_text("- {reference: G1, behaviour: x, provedby: []}")
    with pytest.raises(ValueError, match="provedby"):
        catalogue.load(tmp_path / "t.yaml")
