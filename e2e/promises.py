"""Promises by id (``promises.yaml``), and the tests that prove each, by the marker ``promise`` or by the table itself.

Pure except for ``load``, ``proofs`` and the hooks of pytest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
import pytest

from clusters.provider import read_yaml
from clusters.targets import Capability

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = Path(__file__).with_name("promises.yaml")
_MARK: Final = "pytest.mark.promise"

Profile = Literal[
    "EXTENDER", "DEVICE-PLUGIN", "POD-RESOURCES", "API", "CLI", "END-TO-END", "RESILIENCE", "LIMITS", "OURS", "CLUSTER"
]  # fmt: skip
Level = Literal["must", "may", "defect"]
# What every target is judged by: nothing of our programs alone, nothing about the clusters themselves.
CONFORMANCE: Final[tuple[Profile, ...]] = get_args(Profile)[:-2]


class Promise(msgspec.Struct, frozen=True):
    """One row."""

    id: str
    text: str
    profile: Profile = "OURS"
    level: Level = "must"
    source: str = ""
    needs: tuple[Capability, ...] = ()
    """The capabilities without which a target need not keep it."""
    cases: tuple[str, ...] = ()
    """Tests, files or folders, as pytest takes them, all of which prove it beside those with the marker."""
    not_imitated: str = ""
    """The part that the clusters do not show, or only one of them."""
    proved_by: tuple[str, ...] = ()
    """Ids of tests, as pytest takes them, without parameters."""


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One row as it is written; what it leaves out is the default of its letters."""

    text: str = ""
    profile: Profile | None = None
    level: Level | None = None
    source: str | None = None
    needs: tuple[Capability, ...] = ()
    cases: tuple[str, ...] = ()
    not_imitated: str = ""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    promises: dict[str, str | _Row]
    defaults: dict[str, _Row] = {}


def load(path: Path = TABLE) -> list[Promise]:
    """The rows in order. Raises ClusterError for a table of another form."""
    table = read_yaml(path, _Table, "a table of promises")
    return [_promise(one, row, table.defaults) for one, row in table.promises.items()]


def _promise(one: str, row: str | _Row, defaults: Mapping[str, _Row]) -> Promise:
    letters = one.partition("-")[0] if "-" in one else one.rstrip("0123456789")
    own = {"text": row} if isinstance(row, str) else msgspec.to_builtins(row)
    fields = {"id": one, **msgspec.to_builtins(defaults.get(letters, _Row())), **own}
    named = (test for entry in fields.get("cases", ()) for test in _tests_named(entry))
    proved_by = dict.fromkeys((*proofs().get(one, ()), *named))
    return msgspec.convert({**fields, "proved_by": tuple(proved_by)}, Promise)


@cache
def proofs() -> Mapping[str, tuple[str, ...]]:
    """The tests with the marker, by id, whether this run has collected them or not."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(ROOT.glob("e2e/**/test_*.py")) + sorted(ROOT.glob("tests/**/test_*.py")):
        if _MARK in (text := path.read_text()):
            for test, ids in ids_by_test(text):
                for one in ids:
                    found[one] = (*found.get(one, ()), f"{path.relative_to(ROOT).as_posix()}::{test}")
    return found


def _tests_named(entry: str) -> list[str]:
    """The tests that an entry of ``cases`` names."""
    place = ROOT / entry.partition("::")[0]
    files = sorted(place.rglob("test_*.py")) if place.is_dir() else [place] if place.is_file() else []
    tests = [
        f"{file.relative_to(ROOT).as_posix()}::{test}" for file in files for test, _ in ids_by_test(file.read_text())
    ]
    return [test for test in tests if is_named(test, entry)]


def is_named(test: str, entry: str) -> bool:
    """Is this test, with parameters or without, the one that ``entry`` names, or in its file or folder?"""
    return test == entry or test.startswith((f"{entry}/", f"{entry}::", f"{entry}["))


def ids_by_test(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each test of a module, with the ids that its markers name."""
    for node in ast.parse(source).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for test in members:
            if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test"):
                marks = [mark for mark in test.decorator_list if isinstance(mark, ast.Call)]
                ids = [one for mark in marks if ast.unparse(mark.func) == _MARK for one in mark.args]
                yield f"{prefix}{test.name}", tuple(str(ast.literal_eval(one)) for one in ids)


def findings(rows: Iterable[Promise], proved: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Promises that no test proves, entries of ``cases`` without tests, and tests with an id that is not in the table."""
    rows = list(rows)
    unknown = proved.keys() - {row.id for row in rows}
    found = [f"{row.id}: no test proves it" for row in rows if not row.proved_by]
    empty = [
        (row.id, entry) for row in rows for entry in row.cases if not any(is_named(x, entry) for x in row.proved_by)
    ]
    found += [f"{one}: {entry} names no test" for one, entry in empty]
    return found + [f"{one}: no such promise: {test}" for one in sorted(unknown) for test in proved[one]]


def add_options(group: pytest.OptionGroup) -> None:
    """``--profile``."""
    group.addoption(
        "--profile",
        default="",
        metavar="NAME[,NAME]",
        help=f"the cases of these promises alone: {', '.join(get_args(Profile))}; or conformance, which is the first eight",
    )


def sort_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that the table names, and with what their promises need; leave out those of other profiles."""
    rows = {row.id: row for row in load()}
    for item in items:
        named = [row.id for row in rows.values() if any(is_named(item.nodeid, entry) for entry in row.cases)]
        if named:
            item.add_marker(pytest.mark.promise(*named))
        # A case of several promises can be judged if one of them can.
        if needs := _common(rows[one].needs for one in ids_of(item) if one in rows):
            item.add_marker(pytest.mark.needs(*needs))
    if profiles := wanted(config.getoption("--profile", default="")):
        kept = [item for item in items if any(rows[one].profile in profiles for one in ids_of(item) if one in rows)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def ids_of(item: pytest.Item) -> list[str]:
    """The promises that a case proves."""
    return list(dict.fromkeys(str(one) for mark in item.iter_markers("promise") for one in mark.args))


def _common(needs: Iterable[Iterable[str]]) -> set[str]:
    sets = [set(one) for one in needs]
    return set.intersection(*sets) if sets else set()


def wanted(names: str) -> frozenset[str]:
    """The profiles that ``--profile`` names. Raises UsageError for one that is none."""
    found = {name.strip().upper() for name in names.split(",") if name.strip()}
    if "CONFORMANCE" in found:
        found = found - {"CONFORMANCE"} | {*CONFORMANCE}
    if unknown := found - {*get_args(Profile)}:
        raise pytest.UsageError(f"--profile {', '.join(sorted(unknown))}: known are {', '.join(get_args(Profile))}")
    return frozenset(found)
