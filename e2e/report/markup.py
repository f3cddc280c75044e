"""Elements of HTML out of any text, in which characters that no document may have are replaced; and tables as text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

# What XML 1.0 allows.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def readable(text: str) -> str:
    """The text, with a mark for each character that no document may have."""
    return _FORBIDDEN.sub("\ufffd", text)


def tag(kind: str, /, *children: str | Element, **attributes: str) -> Element:
    """An element; ``class_`` is the attribute ``class``."""
    element = Element(kind, {key.rstrip("_"): readable(value) for key, value in attributes.items()})
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + readable(child)
        else:
            element.text = (element.text or "") + readable(child)
    return element


def table(head: Sequence[str], rows: Iterable[Iterable[str | Element]]) -> Element:
    """A table; a cell that is an element of its own is taken as it is. Each cell names its column for a narrow screen."""
    lines = [tag("tr", *_named(head, row)) for row in rows]
    return tag("table", tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))), tag("tbody", *lines))


def _named(head: Sequence[str], row: Iterable[str | Element]) -> Iterator[Element]:
    for name, cell in zip(head, row, strict=True):
        element = cell if isinstance(cell, Element) else tag("td", cell)
        element.set("data-head", readable(name))
        yield element


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
