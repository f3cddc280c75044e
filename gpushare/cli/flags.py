"""Flags of a program, each declared once: a field of a frozen dataclass, with its name, default, help and reader.

Flags are accepted as Go programs take them, because the original's manifests pass them so: ``-x v``, ``--x=v``, bare
booleans, and glog's own flags, which are read and ignored. A flag wins over an environment variable.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from gpushare import __version__
from gpushare.errors import InvalidQuantityError, UsageError

T = TypeVar("T")
# The value of a text. Raises UsageError with what comes behind the text in an error, or InvalidQuantityError.
Reader = Callable[[str], Any]

# glog's flags, which manifests of Go programs carry.
_GLOG_SWITCHES: Final = ("logtostderr", "alsologtostderr")
_GLOG_VALUES: Final = ("v", "vmodule", "stderrthreshold", "log_dir", "log_backtrace_at")
_TRUE: Final = ("true", "1", "t", "yes")
_FALSE: Final = ("false", "0", "f", "no")
_LOOPBACK: Final = "127.0.0.1"
# A longer text is no duration.
_LONGEST_TEXT: Final = 64
_NUMBER: Final = r"(?:\d+(?:\.\d*)?|\.\d+)"
_PART: Final = re.compile(rf"({_NUMBER})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE: Final = re.compile(rf"(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# A day: a longer time is a slip.
_LONGEST_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; its default is a text, as on a command line."""

    name: str
    help: str
    default: str
    read: Reader
    shown: str = ""
    """The default in the help, if it is not the text."""
    variable: str = ""
    """The environment variable that replaces the default."""
    alias: str = ""
    """A second name; one of a single letter is short for the first."""
    choices: tuple[str, ...] | None = None
    is_positional: bool = False
    """A word by itself, which may be left out."""
    is_list: bool = False
    """Given several times; the value is a tuple of what the reader makes of each, which is one too, without repeats."""

    @property
    def names(self) -> tuple[str, ...]:
        """With its alias."""
        return (self.name, self.alias) if self.alias else (self.name,)

    @property
    def default_shown(self) -> str:
        """The value without the flag, for people; "" for nothing."""
        value = self.shown or self.default
        return " or ".join(filter(None, (self.variable and f"${self.variable}", value)))

    def checked(self, text: str) -> Any:
        """The value of a text. Raises argparse's error, after which the program ends with its usage and exit code 2."""
        source = f" (the flag, or ${self.variable})" if self.variable else ""
        try:
            return self.read(text)
        except InvalidQuantityError as error:
            raise argparse.ArgumentTypeError(f"{error}{source}") from error
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"{text!r}{error}{source}") from error


def flag(name: str, help: str, default: str = "", read: Reader = str, **more: Any) -> Any:  # noqa: A002  # argparse's own word
    """A field that a flag fills; ``more`` as ``Flag`` has it."""
    return field(default=read(default), metadata={"flag": Flag(name, help, default, read, **more)})


def switch(name: str, help: str, default: str = "false", **more: Any) -> Any:  # noqa: A002
    """A field that a boolean flag fills, as Go takes it: ``--x``, ``--x=true``, ``-x=false``."""
    return flag(name, help, default, boolean, **more)


def group(kind: type[Any]) -> Any:
    """A field that is a dataclass of flags of its own."""
    return field(default_factory=kind, metadata={"group": kind})


def variable(name: str) -> Any:
    """A field that an environment variable fills; "" without it."""
    return field(default="", metadata={"variable": name})


def flags_of(kind: type[Any]) -> Iterator[Flag]:
    """The flags of a dataclass and of its groups, in the order of its fields."""
    for one in fields(kind):
        if "flag" in one.metadata:
            yield one.metadata["flag"]
        elif "group" in one.metadata:
            yield from flags_of(one.metadata["group"])


def parse(
    kind: type[T],
    program: str,
    description: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    ignored: Sequence[Flag] = (),
    hidden: Collection[str] = (),
) -> T:
    """The dataclass, filled from a command line and an environment; the help leaves out the ``hidden`` flags.

    A flag that does not exist, and a value that makes no sense, end the program with its usage and exit code 2. Raises what the
    dataclass does of values that contradict each other.
    """
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    declared = (*flags_of(kind), *ignored)
    for one in declared:
        _declare(parser, one, env, is_hidden=one.name in hidden)
    for name in (*_GLOG_SWITCHES, *_GLOG_VALUES):
        parser.add_argument(option_of(name), nargs="?", help=argparse.SUPPRESS)
    # A switch takes no word if there is a positional one.
    has_positional = any(one.is_positional for one in declared)
    known = dict.fromkeys(("help", "version", *_GLOG_VALUES), False) | dict.fromkeys(_GLOG_SWITCHES, has_positional)
    for one in declared:
        known |= dict.fromkeys(one.names, one.read is boolean and has_positional)
    made: T = _made(kind, vars(parser.parse_intermixed_args(_from_go(argv, known))), env)
    return made


def _from_go(argv: Sequence[str], known: Mapping[str, bool]) -> list[str]:
    """The same words in argparse's spelling: two dashes before a long name, and a value for each switch that takes no word."""
    found: list[str] = []
    for at, whole in enumerate(argv):
        if whole == "--":
            return [*found, *argv[at:]]
        for word in _apart(whole, known):
            name, equals, value = word.lstrip("-").partition("=")
            if word.startswith("-") and name in known:
                word = option_of(name) + (f"={value}" if equals else "=true" if known[name] else "")
            found.append(word)
    return found


def _apart(word: str, known: Mapping[str, bool]) -> list[str]:
    """Short switches that are written together, each as a word: ``-dA`` is ``-d -A``, and ``-dojson`` is ``-d -ojson``."""
    name = word[1:].partition("=")[0]
    if word.startswith("-") and known.get(name[:1]) and name[1:2].isalpha() and name not in known:
        return [word[:2], *_apart(f"-{word[2:]}", known)]
    return [word]


def option_of(name: str) -> str:
    """A flag as it is written: one letter with one dash."""
    return f"--{name}" if len(name) > 1 else f"-{name}"


def _declare(parser: argparse.ArgumentParser, one: Flag, env: Mapping[str, str], *, is_hidden: bool) -> None:
    """argparse reads the default, too, if it is a text."""
    shown = f"{one.help} (default: {one.default_shown})" if one.default_shown else one.help
    options: dict[str, Any] = {"type": one.checked, "default": env.get(one.variable, one.default)}
    if one.is_positional:
        options |= {"nargs": "*", "default": None} if one.is_list else {"nargs": "?"}
    else:
        options |= {"dest": one.name, "choices": one.choices}
        options |= {"action": "append", "default": None} if one.is_list else {}
    if one.read is boolean:
        options |= {"nargs": "?", "const": "true", "metavar": "BOOL"}
    names = [one.name] if one.is_positional else map(option_of, one.names)
    parser.add_argument(*names, help=argparse.SUPPRESS if is_hidden else shown.replace("%", "%%"), **options)


def _made(kind: type[Any], given: Mapping[str, Any], env: Mapping[str, str]) -> Any:
    values: dict[str, Any] = {}
    for one in fields(kind):
        if "group" in one.metadata:
            values[one.name] = _made(one.metadata["group"], given, env)
        elif "variable" in one.metadata:
            values[one.name] = env.get(one.metadata["variable"], "")
        elif (declared := one.metadata["flag"]).is_list and given[declared.name]:
            values[one.name] = tuple(dict.fromkeys(word for words in given[declared.name] for word in words))
        elif not declared.is_list:
            values[one.name] = given[declared.name]
    return kind(**values)


def boolean(text: str) -> bool:
    """Read as Go reads one."""
    if text.lower() not in (*_TRUE, *_FALSE):
        raise UsageError(", neither true nor false")
    return text.lower() in _TRUE


def optional(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """A reader for which no text is None."""
    return lambda text: read(text) if text else None


def number(lowest: int, highest: int) -> Callable[[str], int]:
    """A reader of whole numbers."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= _LONGEST_TEXT
        if not (is_number and lowest <= int(text) <= highest):
            raise UsageError(f", not a number from {lowest} to {highest}")
        return int(text)

    return read


def duration(least: float = 0.0) -> Callable[[str], float]:
    """A reader of times, in seconds; at least ``least`` and at most a day."""

    def read(text: str) -> float:
        seconds = seconds_of(text)
        if seconds is None:
            raise UsageError(", not a time such as 15s or 1m30s")
        if not least <= seconds <= _LONGEST_SECONDS:
            raise UsageError(f"; it takes {least:g}s to {_LONGEST_SECONDS:.0f}s")
        return seconds

    return read


def host_port(text: str) -> tuple[str, int] | None:
    """Host and port, None for nowhere; an address without a host is on loopback."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    known = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    in_brackets = host.startswith("[") and host.endswith("]")
    if not colon or not known or (":" in host and not in_brackets):
        raise UsageError(", not HOST:PORT, [IPV6]:PORT or :PORT with a port up to 65535")
    return (host[1:-1] if in_brackets else host) or _LOOPBACK, int(port)


def seconds_of(text: str) -> float | None:
    """Seconds as Go programs and so kubectl read them: of ``1m30s``, ``1.5h``, ``500ms`` or a bare number of seconds.

    None for anything else, also if it is negative.
    """
    if len(text) > _LONGEST_TEXT:
        return None
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if _WHOLE.fullmatch(text) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
