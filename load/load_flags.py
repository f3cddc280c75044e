"""Flags that several programs here have, and their types."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

CLUSTERS: Final = Path(__file__).parents[1] / "clusters" / "simulated" / "load"


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """The flag for the simulated cluster; by default one that ships with this."""
    parser.add_argument(
        "--cluster",
        type=Path,
        default=CLUSTERS / "nodes-1000.yaml",
        metavar="FILE",
        help="simulated cluster (default: 1,000 nodes)",
    )


def add_output(parser: argparse.ArgumentParser, folder: str) -> None:
    """Where the results go."""
    parser.add_argument(
        "--output",
        "-o",
        type=Path,
        default=Path(folder),
        metavar="DIR",
        help="folder of the results (default: %(default)s)",
    )


def count(text: str) -> int:
    """A number from 1 up. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def milliseconds(text: str) -> float:
    """From 0 to 1,000. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of milliseconds from 0 to 1000")
    return value


def port(text: str) -> int:
    """A port, or 0. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def seed(text: str) -> int:
    """A number from 0 up. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)
