"""Promises by id (``promises.yaml``), and the tests that prove each, by the marker ``promise`` or by the table itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec
import pytest

from clusters.provider import read_yaml
from clusters.targets import Capability

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = Path(__file__).with_name("promises.yaml")

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
    return msgspec.convert(fields, Promise)


def is_named(test: str, entry: str) -> bool:
    """Is this test, with parameters or without, the one that ``entry`` names, or in its file or folder?"""
    return test == entry or test.startswith((f"{entry}/", f"{entry}::", f"{entry}["))


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
