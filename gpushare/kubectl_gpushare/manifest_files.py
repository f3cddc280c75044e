"""The files of ``simulate``, found and read as kubectl does: files, folders, patterns and the standard input; YAML or JSON."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from gpushare.bounds import YAML_CHARACTERS
from gpushare.errors import GpushareError, UsageError
from gpushare.foreign import UnreadableError, decode_each_yaml, decode_json
from gpushare.kubectl_gpushare.core.manifest_pods import KINDS, Manifest

STDIN: Final = "-"
_ENDINGS: Final = (".json", ".yaml", ".yml")


def read(names: Sequence[str], given: TextIO, *, recursive: bool = False) -> Manifest:
    """The objects of all files; ``given`` is the standard input. Raises GpushareError."""
    found = Manifest()
    for name in names:
        for file in _files(name, recursive=recursive):
            try:
                found.take(_parsed(_text(file, given)))
            except UsageError as error:
                raise UsageError(f"{file}: {error}") from error
    found.drop_owned()
    if not found.workloads:
        without = [f"{title} has no pods that simulate knows of" for title in found.passed_over]
        why = "; ".join([*found.unjudged, *without]) or "there is no object"
        raise UsageError(f"{','.join(names)}: nothing to place: {why}. Placed are the pods of {', '.join(KINDS)}")
    return found


def _files(name: str, *, recursive: bool) -> Iterator[str]:
    """The files that a name means, in order. Raises GpushareError."""
    path = Path(name)
    if name == STDIN:
        yield name
    elif re.match(r"https?://", name):
        raise UsageError(
            f"{name} is a URL, and simulate reads files alone: curl -fL {name} | kubectl gpushare simulate -f -"
        )
    elif path.is_dir():
        files = (one for one in (path.rglob("*") if recursive else path.glob("*")) if one.suffix in _ENDINGS)
        found = sorted(str(one) for one in files if one.is_file())
        if not found:
            raise GpushareError(
                f"no file of the folder {name} ends with .yaml, .yml or .json; -R looks in its folders, too"
            )
        yield from found
    elif path.exists() or not glob.has_magic(name):
        if not path.exists():
            raise GpushareError(f"the path {name!r} does not exist")
        yield name
    else:
        found = sorted(glob.glob(name))  # noqa: PTH207  # a Path takes no absolute pattern
        if not found:
            raise GpushareError(f"no file matches {name!r}")
        yield from found


def _text(file: str, given: TextIO) -> str:
    try:
        if file == STDIN:
            return given.read(YAML_CHARACTERS.most + 1)
        with Path(file).open(encoding="utf-8-sig") as opened:
            return opened.read(YAML_CHARACTERS.most + 1)
    except UnicodeDecodeError as error:
        raise UsageError("it is no UTF-8") from error
    except OSError as error:
        raise GpushareError(f"cannot read {file}: {error.strerror}") from error


def _parsed(text: str) -> list[Any]:
    """The documents, as plain JSON: what PyYAML makes of tags and of references to themselves is refused. Raises UsageError."""
    try:
        found: list[Any] = decode_json(msgspec.json.encode(list(_documents(text))))
    except RecursionError as error:
        raise UsageError("it is nested too deeply") from error
    except UnreadableError as error:
        raise UsageError(f"it is neither YAML nor JSON{error.place}: {error}") from error
    except Exception as error:
        # A value that JSON does not have, as a set; or a number of thousands of digits.
        raise UsageError(f"it is neither YAML nor JSON: {error}") from error
    return found


def _documents(text: str) -> Iterator[Any]:
    """The documents of YAML, which JSON is too; or JSON objects one after the other, which YAML does not know."""
    if YAML_CHARACTERS.exceeded(len(text)):
        raise UsageError(YAML_CHARACTERS.refusal)
    try:
        yield from _stream(text)
    except json.JSONDecodeError:
        yield from decode_each_yaml(text)


def _stream(text: str) -> list[Any]:
    found, at, decoder = [], 0, json.JSONDecoder()
    while rest := re.compile(r"\S").search(text, at):
        value, at = decoder.raw_decode(text, rest.start())
        found.append(value)
    return found
