"""A scenario: what happens to simulated cards, and when, as data (``scenarios/*.yaml``, or a file of the same form).

::

    about: a card of two becomes unhealthy and recovers
    steps:
      - {after: 2s, do: xid 1 48}     # 2 seconds after the step before; at once by default
      - {after: 500ms, do: repair 1}

``do`` is what one would write after ``fake-nvml``: any command that changes cards.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from fake_nvml import sysfs, yaml_text
from fake_nvml.changes import CHANGES, change
from fake_nvml.command_line import UsageError, parse_words
from fake_nvml.fake_nvml_errors import FakeNvmlError, ScenarioError
from fake_nvml.mapping import create_file
from fake_nvml.state import State

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True)
class Step:
    """One command, ``seconds`` after the one before it."""

    seconds: float
    arguments: argparse.Namespace


def load(path: Path) -> tuple[Step, ...]:
    """Read a scenario. Raises ScenarioError with the step whose key, time or command is wrong."""
    try:
        content = yaml_text.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path} cannot be read as YAML: {error}") from error
    entries = content.get("steps") if isinstance(content, dict) and content.keys() <= {"about", "steps"} else content
    if not isinstance(entries, list):
        raise ScenarioError(f"{path}: a scenario has the keys steps, a list, and about; or it is that list")
    steps = []
    for number, entry in enumerate(entries, 1):
        with _named(path, number):
            steps.append(_step(entry))
    return tuple(steps)


def check(state: State, path: Path, steps: tuple[Step, ...]) -> None:
    """Do all steps on a copy of the cards as they are now. Raises ScenarioError at the first that fails there."""
    with tempfile.TemporaryDirectory(prefix="fake-nvml-") as folder:
        copy = Path(folder) / "state"
        create_file(copy, state.read())
        sysfs.prepare(sysfs.folder_of(copy))
        with State.open(copy) as rehearsal:
            for number, step in enumerate(steps, 1):
                with _named(path, number):
                    change(rehearsal, step.arguments)


def run(
    state: State,
    path: Path,
    steps: tuple[Step, ...],
    report: Callable[[str], None],
    *,
    monotonic: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Do the steps at their times; ``report`` gets a line for each. A step that is late does not delay the next ones.

    Raises ScenarioError if a step fails, as when the cards were changed in between. KeyboardInterrupt stops
    it between two steps.
    """
    start = monotonic()
    due = 0.0
    for number, step in enumerate(steps, 1):
        due += step.seconds
        left = start + due - monotonic()
        if left > 0:
            sleep(left)
        with _named(path, number):
            done = change(state, step.arguments)
        report(f"{monotonic() - start:8.3f} s  {done}")


@contextlib.contextmanager
def _named(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except FakeNvmlError as error:
        raise ScenarioError(f"{path}: step {number}: {error}") from error


def _step(entry: object) -> Step:
    if not isinstance(entry, dict) or not {"do"} <= entry.keys() <= {"after", "do"}:
        raise ScenarioError(f"{entry!r} is no step; it has the key do, and may have after")
    return Step(_seconds(entry.get("after", "0s")), _command(str(entry["do"])))


def _seconds(after: object) -> float:
    match = _DURATION.fullmatch(str(after))
    if match is None or isinstance(after, bool):
        raise ScenarioError(f"after: {after!r} is no time; write it as 2s, 500ms or 1m")
    return float(match[1]) * _UNITS[match[2]]


def _command(text: str) -> argparse.Namespace:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ScenarioError(f"do: {text!r}: {error}") from error
    if not words or words[0] not in CHANGES or {"-h", "--help"} & set(words):
        raise ScenarioError(f"do: {text!r} is none of the commands that a step may be: {', '.join(CHANGES)}")
    try:
        arguments = parse_words(words)
    except UsageError as error:
        raise ScenarioError(f"do: {text!r}: {str(error).partition(chr(10))[0]}; {error.usage.strip()}") from error
    if arguments.state is not None:
        raise ScenarioError(f"do: {text!r} has --state; a scenario is for one state file, fake-nvml run --state PATH")
    if getattr(arguments, "action", None) == "list":
        raise ScenarioError(f"do: {text!r} changes nothing; a scenario is of changes")
    return arguments
