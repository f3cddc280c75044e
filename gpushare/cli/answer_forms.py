"""The forms in which programs for people answer, as kubectl has them: a table, a document for programs, names."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TextIO, cast

import yaml

from gpushare.errors import GpushareError, UsageError

WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
OUTPUTS: Final = (WIDE, JSON, YAML, NAME)

# Line ends are ours: a foreign text in a cell has none, see ``printable``.
_UNUSUAL: Final = re.compile(r"[^ -~\n]")
_GAP: Final = 3
_INDENT: Final = 4
# The one in C is ten times as fast; PyYAML is there without it on some machines.
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# The exit code of a program that Ctrl-C ended, as shells report it.
_INTERRUPTED: Final = 130


def exit_code(run: Callable[[], int], err: TextIO | None = None, interrupted: str = "") -> int:
    """The exit code of a console script: that of ``run``, 2 for what makes no sense, 1 for another error.

    Its text is written, or ``interrupted`` after Ctrl-C; nothing if only the output has lost its reader, which is 1.
    """
    err = on_terminal(err or sys.stderr)
    try:
        return run()
    except KeyboardInterrupt:
        err.write(interrupted)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough (head, less); the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (GpushareError, OSError) as error:
        err.write(f"error: {error}\n")
        return 2 if isinstance(error, UsageError) else 1


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, headers: bool = True) -> str:
    """Columns three blanks apart, without blanks at line ends; nothing without rows."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if not cells:
        return ""
    cells = [list(header), *cells] if headers else cells
    widths = [max(len(row[at]) for row in cells) + _GAP for at in range(len(header))]
    lines = ("".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "".join(f"{line}\n" for line in lines)


def age(when: str, now: float) -> str:
    """How long ago a time of the API was, as kubectl writes it (``HumanDuration``): ``45s``, ``5m12s``, ``3h20m``, ``2d4h``.

    ``now`` is in seconds since 1970; a text that is no time is ``<unknown>``.
    """
    try:
        seconds = int(now - datetime.fromisoformat(when).timestamp())
    except (ValueError, OverflowError):
        return "<unknown>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if seconds < -1:
        return "<invalid>"
    if minutes < 2:
        return f"{max(seconds, 0)}s"
    if hours < 3:
        return f"{minutes}m" + _rest(seconds % 60, "s", minutes < 10)
    if days < 2:
        return f"{hours}h" + _rest(minutes % 60, "m", hours < 8)
    if years < 2:
        return f"{days}d" + _rest(hours % 24, "h", days < 8)
    return f"{years}y" + _rest(days % 365, "d", years < 8)


def _rest(amount: int, unit: str, is_shown: bool) -> str:
    return f"{amount}{unit}" if amount and is_shown else ""


def counted(number: int, thing: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """Without characters that steer a terminal: messages of events and conditions may hold what a pod's author wrote."""
    return text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)


class _OnTerminal(io.TextIOBase):
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(_UNUSUAL.sub(_escape, text))

    def flush(self) -> None:
        self._out.flush()


def on_terminal(out: TextIO) -> TextIO:
    """The same stream, with JSON's escape for each character that steers a terminal, or that it does not show.

    Any text that is written may quote what the author of a pod or a node has put into the API. A document stays the same JSON.
    """
    return cast("TextIO", _OnTerminal(out))


def _escape(found: re.Match[str]) -> str:
    if found[0].isprintable():
        return found[0]
    return "".join(f"\\u{unit:04x}" for unit in memoryview(found[0].encode("utf-16-le", "surrogatepass")).cast("H"))


def document(form: str, answer: Any) -> str:
    """The whole answer; ``form`` is JSON or YAML."""
    if form == JSON:
        return json.dumps(answer, indent=_INDENT, ensure_ascii=False) + "\n"
    text: str = yaml.dump(answer, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    if not all(map(str.isprintable, text.split("\n"))):
        text = yaml.dump(answer, Dumper=_DUMPER, sort_keys=False)
    return text
