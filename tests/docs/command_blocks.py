"""The fenced blocks of a page in Markdown, each with the marker before it. Pure.

A block of commands (``sh``) has one of three markers, an HTML comment on a line of its own before it:

* ``<!-- run -->``: a test runs it; ``<!-- run: NODE=node1; 10m=3s -->``: with these words in the place of those;
* ``<!-- run by: FILE -->``: the tests in that file do what it does, with more checks;
* ``<!-- not run: REASON -->``: no test can; the reasons are ``REASONS``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMMANDS: Final = "sh"
# A block is of commands, or a document that can be read, or text.
LANGUAGES: Final = (COMMANDS, "yaml", "toml", "python", "text", "{toctree}")
RUN: Final = "run"
RUN_BY: Final = "run by"
NOT_RUN: Final = "not run"
REASONS: Final = (
    "changes files of a real node",
    "needs a GPU",
    "needs Docker and a registry",
    "needs JupyterHub",
    "needs OpenShift",
    "runs until Ctrl-C",
)
_BLOCK: Final = re.compile(
    rf"(?:^ *<!-- (?P<how>{RUN}|{RUN_BY}|{NOT_RUN})(?:: (?P<detail>[^\n]+?))? -->\n)?"
    r"^(?P<fence> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; ``how`` is the kind of its marker, "" without one, and ``detail`` what stands behind that."""

    page: str
    line: int
    language: str
    how: str
    detail: str
    text: str

    @property
    def place(self) -> str:
        """For people."""
        return f"{self.page}:{self.line}"

    def script(self) -> str:
        """The commands, with the marker's replacements."""
        text = self.text
        for pair in filter(None, self.detail.split("; ")) if self.how == RUN else ():
            old, _, new = pair.partition("=")
            text, count = re.subn(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _, new=new: new, text)
            if not count:
                raise ValueError(f"{self.place}: the block has no {old!r} to replace")
        return text


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """All blocks of a page, in order."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("fence")) + 1
        body = textwrap.dedent(found["text"])
        yield Block(page, line, found["language"], found["how"] or "", found["detail"] or "", body)
