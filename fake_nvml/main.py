"""``fake-nvml``: make simulated cards, look at them, change them, and run programs on them.

Exit codes: 0 good, 1 failed, 2 usage, 130 after Ctrl-C; ``exec`` becomes the command, and its exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import yaml

from fake_nvml import scenario, sysfs
from fake_nvml.box import Box
from fake_nvml.changes import change
from fake_nvml.command_line import parse
from fake_nvml.core.card_table import fault_table, limit_table
from fake_nvml.fake_nvml_errors import FakeNvmlError, RecordError, StateError
from fake_nvml.guard import DEFAULT_STATE, DRIVER_FOLDER, STATE_VARIABLE, check_real_driver
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.recording import record
from fake_nvml.show import render, watch
from fake_nvml.state import State

_INTERRUPTED = 130
_LIBRARIES = "LD_LIBRARY_PATH"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code. Usage errors leave through SystemExit(2), as argparse does."""
    environment = dict(os.environ)  # noqa: TID251  # a program's own main
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments, environment)
    except FakeNvmlError as error:
        sys.stderr.write(f"fake-nvml: {error}\n")
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has enough; the rest of the buffer would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(arguments: argparse.Namespace, environment: Mapping[str, str], *, driver_folder: Path = DRIVER_FOLDER) -> int:
    """Run parsed arguments in an environment."""
    variable = environment.get(STATE_VARIABLE)
    path = Path(arguments.state or variable or DEFAULT_STATE)
    if arguments.command in ("init", "exec"):
        check_real_driver(on_purpose=bool(variable), driver_folder=driver_folder)
    if arguments.command == "init":
        return _init(path, arguments)
    if arguments.command == "exec":
        return _exec(path, arguments, environment)
    if arguments.command == "record":
        return _record(path if arguments.state or variable else None, arguments, environment)
    with State.open(path) as state:
        if arguments.command == "show":
            return _show(state, arguments)
        if arguments.command in ("faults", "limits") and arguments.action == "list":
            listed = fault_table(state.faults()) if arguments.command == "faults" else limit_table(state.limits())
            sys.stdout.write(listed)
            return 0
        if arguments.command == "run":
            return _run(state, Path(arguments.scenario))
        sys.stdout.write(change(state, arguments) + "\n")
        return 0


def _init(path: Path, arguments: argparse.Namespace) -> int:
    box = Box.load(arguments.box, seed=arguments.seed, driver=arguments.driver)
    State.create(path, box).close()
    sys.stdout.write(f"{len(box.cards)} simulated cards, driver {box.driver}, in {path}\n")
    if box.dropped:
        sys.stderr.write(f"fake-nvml: recorded, but not simulated: {', '.join(sorted(box.dropped))}\n")
    return 0


def _show(state: State, arguments: argparse.Namespace) -> int:
    if arguments.watch:
        watch(state, arguments.output, sys.stdout, monotonic=time.monotonic, sleep=time.sleep)
    sys.stdout.write(render(arguments.output, state.read()))
    return 0


def _record(path: Path | None, arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    library = None if arguments.library is None else Path(arguments.library)
    if path is not None and library is None:
        with State.open(path) as state:
            library = library_folder(state.driver(), environment) / LIBRARY
        # The library reads it, in this process.
        os.environ[STATE_VARIABLE] = str(path)  # noqa: TID251  # a program's own main
    content = record(library)
    page = f"# Written by fake-nvml record.\n{yaml.safe_dump(content, sort_keys=False)}"
    kind = "simulated" if content["simulated"] else "real"
    if arguments.output is None:
        sys.stdout.write(page)
    else:
        try:
            Path(arguments.output).write_text(page, encoding="utf-8")
        except OSError as error:
            raise RecordError(f"{arguments.output} cannot be written: {error.strerror}") from error
    sys.stderr.write(f"fake-nvml: {len(content['cards'])} {kind} cards recorded, driver {content['driver']}\n")
    return 0


def _run(state: State, path: Path) -> int:
    steps = scenario.load(path)
    scenario.check(state, path, steps)
    try:
        scenario.run(state, path, steps, partial(print, flush=True), monotonic=time.monotonic, sleep=time.sleep)
    except KeyboardInterrupt:
        sys.stderr.write("fake-nvml: stopped; what was done stays done\n")
        raise
    return 0


def environment_with_cards(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program finds the cards of a state file, under the library of their present driver.

    Raises FakeNvmlError.
    """
    with State.open(path) as state:
        driver = state.driver()
    # The library is first in the loader's path, so that any program finds it, in whatever language.
    known = filter(None, environment.get(_LIBRARIES, "").split(os.pathsep))
    libraries = os.pathsep.join(dict.fromkeys([str(library_folder(driver, environment)), *known]))
    return {**environment, STATE_VARIABLE: str(path.absolute()), _LIBRARIES: libraries}


def _exec(path: Path, arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Become the command: its pid is this one's, and signals reach it directly."""
    if arguments.sys:
        sysfs.mount(sysfs.folder_of(path))
    child = environment_with_cards(path, environment)
    command = arguments.argv
    sys.stderr.write(f"fake-nvml: simulated cards for {command[0]}\n")
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), child)  # noqa: S606  # no shell is the point
    except OSError as error:
        raise StateError(f"cannot run {command[0]}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
