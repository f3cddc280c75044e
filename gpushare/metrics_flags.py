"""The flag for the address of a program's metrics. Read by ``settings`` and ``plugin_flags``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from gpushare.errors import UsageError

_LOOPBACK: Final = "127.0.0.1"

Flag = Callable[..., None]


def add_metrics_flag(parser: argparse.ArgumentParser, flag: Flag, paths: str) -> None:
    """Declare it; ``flag`` adds one to the parser in both of Go's spellings, ``paths`` are what is served."""
    flag(
        parser,
        "metrics-address",
        default="",
        help=f"serve {paths} on HOST:PORT; :PORT is on loopback, port 0 takes a free one (default: off)",
    )


def read_metrics_flag(parsed: argparse.Namespace) -> tuple[str, int] | None:
    """Host and port, None for nowhere; an address without a host is on loopback.

    Raises UsageError.
    """
    text: str = parsed.metrics_address
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    known = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    in_brackets = host.startswith("[") and host.endswith("]")
    if not colon or not known or (":" in host and not in_brackets):
        raise UsageError(f"--metrics-address is {text!r}, not HOST:PORT, [IPV6]:PORT or :PORT with a port up to 65535")
    return (host[1:-1] if in_brackets else host) or _LOOPBACK, int(port)
