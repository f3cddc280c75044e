"""How the commands of ``load`` end, and the flags that several of them have."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from clusters.api.api_client import ApiError
from clusters.api.waiting import NotReachedError
from clusters.provider import ClusterError

_T = TypeVar("_T")
CLUSTERS: Final = Path(__file__).parents[1] / "clusters" / "simulated" / "load"


class LoadError(Exception):
    """It ends a command; the text is for people."""


class CannotMeasureError(LoadError):
    """Something is not as it must be to measure."""


def read_data(path: Path, kind: type[_T]) -> _T:
    """A YAML file as data. Raises LoadError, which names the file and the fault."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), kind)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise LoadError(f"{path}: {error}") from error


def exit_code(name: str, work: Callable[[], int]) -> int:
    """The code of the work; 1 and one line on standard error if an error that is for people ended it, 130 if Ctrl-C did."""
    try:
        return work()
    except (LoadError, ClusterError, ApiError, NotReachedError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def apart(name: str, work: Callable[[Any], Any]) -> int:
    """The exit code of a process of its own: its plan is JSON on standard input, and the result goes to standard output."""

    def run() -> int:
        json.dump(work(json.load(sys.stdin)), sys.stdout)
        return 0

    return exit_code(name, run)


def add_output(parser: argparse.ArgumentParser, folder: str) -> None:
    """Where the results go."""
    about = "folder of the results (default: %(default)s)"
    parser.add_argument("--output", "-o", type=Path, default=Path(folder), metavar="DIR", help=about)


def _whole(text: str, least: int, most: int, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is not a {what}")
    return int(text)


def count(text: str) -> int:
    """A number from 1 up. Raises argparse.ArgumentTypeError."""
    return _whole(text, 1, 10**18, "number from 1 up")


def port(text: str) -> int:
    """A port, or 0. Raises argparse.ArgumentTypeError."""
    return _whole(text, 0, 65535, "port")


def seed(text: str) -> int:
    """A number from 0 up. Raises argparse.ArgumentTypeError."""
    return _whole(text, 0, 10**18, "number from 0 up")
