"""Where this machine's own Debian packages come from: a pure reading of apt's source files, in both of their forms.

The rules are those of Debian's sources.list(5): one line an entry in ``*.list``, paragraphs of fields in ``*.sources``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """One repository of binary packages."""

    url: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""
    """A file of keys, or "" for the system's."""


def mirror(files: Iterable[tuple[str, str]], suite: str) -> Source | None:
    """The first source of that suite with component ``main``; files are (name, text) in apt's order."""
    for name, text in files:
        for source in _paragraphs(text) if name.endswith(".sources") else _lines(text):
            if source.suite == suite and "main" in source.components:
                return source
    return None


def _lines(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<url>\S+)\s+(?P<suite>\S+)(?P<rest>[^#]*)", line)
        if match is not None:
            options = dict(option.partition("=")[::2] for option in (match["options"] or "").split())
            yield Source(match["url"], match["suite"], tuple(match["rest"].split()), options.get("signed-by", ""))


def _paragraphs(text: str) -> Iterator[Source]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for paragraph in re.split(r"\n\s*\n", kept):
        fields = {
            name.lower(): value.split()
            for name, value in re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        }
        if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
            continue
        keys = fields.get("signed-by", [])
        # Keys may also stand in the file itself; then there is no file of them to name.
        signed_by = keys[0] if len(keys) == 1 and keys[0].startswith("/") else ""
        for url in fields.get("uris", []):
            for suite in fields.get("suites", []):
                yield Source(url, suite, tuple(fields.get("components", [])), signed_by)
