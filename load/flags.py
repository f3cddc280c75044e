"""Types of flags that several programs here have."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """A number from 1 up. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


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
