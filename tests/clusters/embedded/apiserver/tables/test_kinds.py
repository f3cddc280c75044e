"""Every row here was recorded from kube-apiserver 1.36.3: the object that it had, and the table that it made of it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.embedded.apiserver.tables.kinds import COLUMNS, columns_of

_RECORDED: Final = json.loads((Path(__file__).parent / "recorded.json").read_text())
# Other kinds have no columns for ``-o wide`` here.
_WIDE: Final = ("v1 Pod", "v1 Node")


def _shown(kind: str, cells: list[Any]) -> list[Any]:
    """The recorded cells or columns that we have."""
    columns = _RECORDED["columns"].get(kind, [])
    wide = [False] * len(cells) if kind in _WIDE else [column[3] == 1 for column in columns]
    return [cell for at, cell in enumerate(cells) if at >= len(wide) or not wide[at]]


def _id(row: Any) -> str:
    return f"{row['object']['kind']}-{row['object']['metadata']['name']}"


@pytest.mark.parametrize("row", _RECORDED["rows"], ids=_id)
def test_the_cells_are_those_of_the_real_server(row: Any) -> None:
    """An object's cells are those of the real server for the same object."""
    item, now = row["object"], datetime.fromisoformat(row["now"])
    found = [column.show(item, now) for column in columns_of(item["apiVersion"], item["kind"])]
    assert found == _shown(f"{item['apiVersion']} {item['kind']}", row["cells"])


@pytest.mark.parametrize(("kind", "columns"), _RECORDED["columns"].items())
def test_the_columns_are_those_of_the_real_server(kind: str, columns: list[list[Any]]) -> None:
    """Names, types, formats and priorities of a kind's columns are the real server's."""
    found = columns_of(*kind.split(" "))
    assert [[one.name, one.type, one.format, one.priority] for one in found] == _shown(kind, columns)


def test_no_columns_without_a_recording() -> None:
    """Every kind that has columns of its own was compared with the real server."""
    assert {" ".join(key) for key in COLUMNS} <= set(_RECORDED["columns"])
