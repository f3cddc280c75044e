"""``python -m e2e faulty``: each wrong program plays the case that must catch it, in a run of its own on the embedded cluster.

A faulty implementation is caught if its case fails; one that has an error before it can judge, or is skipped, has caught nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree as xml  # noqa: N813  # the module's usual short name

import msgspec

from clusters.provider import ClusterError, read_yaml
from e2e import commands
from e2e.promises import is_named
from e2e.reference import reference_faults

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).with_name("faulty_implementations.yaml")
TARGET: Final = "reference"
_HELP: Final = "play the wrong programs by which the suite is judged; each must be caught by its case"


class FaultyImplementation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wrong program, named after its fault, and the case that must catch it."""

    name: str
    wrong: str
    program: Literal["extender", "device_plugin"]
    case: str


def load() -> list[FaultyImplementation]:
    """All of them. Raises ClusterError."""
    return read_yaml(TABLE, list[FaultyImplementation], "a list of faulty implementations")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb ``faulty``."""
    parser = verbs.add_parser("faulty", help=_HELP, description=_HELP)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all)")
    parser.add_argument(
        "--jobs", type=int, default=2, help="how many at a time; most of them wait (default: %(default)s)"
    )
    parser.set_defaults(run=_run)


async def play(faulty: FaultyImplementation) -> str:
    """The fault of the judge; "" if the faulty implementation was caught."""
    outcomes, output = await _outcomes(faulty)
    own = {outcome for name, outcome in outcomes.items() if is_named(name, faulty.case)}
    return "" if "failed" in own else f"not caught: {faulty.case} {', '.join(sorted(own)) or 'is not there'}\n{output}"


def outcomes_of(junit: str) -> dict[str, str]:
    """The outcome of each case in a report of JUnit's form, by its node id: passed, failed, error, or skipped."""
    found: dict[str, str] = {}
    for case in xml.fromstring(junit).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}"
        kinds = {child.tag for child in case}
        outcome = next((kind for tag, kind in _OUTCOMES.items() if tag in kinds), "passed")
        # A case that failed and then had an error at its end comes twice.
        found[name] = outcome if found.get(name) != "failed" else "failed"
    return found


_OUTCOMES: Final = {"failure": "failed", "error": "error", "skipped": "skipped"}


async def _outcomes(faulty: FaultyImplementation) -> tuple[dict[str, str], str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # One failure of its case is enough.
        argv = [sys.executable, "-m", "pytest", faulty.case, "--exitfirst", "-q", "-p", "no:cacheprovider"]
        # Its verdicts are not the honest reference implementation's.
        argv += [f"--junitxml={report}", f"--verdicts={folder}", f"--target={TARGET}", "--cluster=embedded"]
        variables = {reference_faults.VARIABLE: faulty.name, "PYTHONPATH": str(ROOT)}
        ended = await commands.run(*argv, folder=ROOT, variables=variables)
        text = report.read_text(encoding="utf-8") if report.exists() else "<none/>"
    return outcomes_of(text), "\n".join(ended.said.splitlines()[-20:])


def _run(arguments: argparse.Namespace) -> int:
    try:
        known = {one.name: one for one in load()}
    except ClusterError as error:
        raise ValueError(str(error)) from error
    if unknown := [name for name in arguments.names if name not in known]:
        raise ValueError(f"no faulty implementation is called {', '.join(unknown)}")
    chosen = [known[name] for name in arguments.names] or list(known.values())
    missed = asyncio.run(_play_all(chosen, arguments.jobs))
    print(f"{len(chosen) - missed} of {len(chosen)} faulty implementations were caught")  # noqa: T201
    return 1 if missed else 0


async def _play_all(chosen: Sequence[FaultyImplementation], jobs: int) -> int:
    """Play them, that number together, and print each verdict; how many were missed."""
    free = asyncio.Semaphore(jobs)

    async def verdict(faulty: FaultyImplementation) -> bool:
        async with free:
            began = time.monotonic()
            wrong = await play(faulty)
        seconds = f"({time.monotonic() - began:.0f} s)"
        print("MISSED" if wrong else "caught", faulty.name, seconds, wrong, flush=True)  # noqa: T201
        return bool(wrong)

    return sum(await asyncio.gather(*map(verdict, chosen)))
