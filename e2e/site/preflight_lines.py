"""The result of a look before an installation: rules yield what they saw, and it becomes lines with their names.

Pure, except that the traceback of an error that no rule expects goes to a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from e2e.report.verdict_table import Judged, PreflightLine
from e2e.site.unexpected import not_judged

_P = TypeVar("_P")
_JUDGEMENTS: Final[tuple[Judged, ...]] = ("ok", "wrong", "unknown")
# Its lines have no name yet.
Rule = Callable[[_P], Iterator[PreflightLine]]


class UnseenError(Exception):
    """A rule cannot see what it judges; the text has why, ``todo`` what to do."""

    def __init__(self, text: str, todo: str) -> None:
        super().__init__(text)
        self.todo = todo


def ok(subject: str, text: str) -> PreflightLine:
    """It is as it must be."""
    return PreflightLine("", subject, "ok", text)


def wrong(subject: str, text: str, todo: str) -> PreflightLine:
    """An installation or a validation fails by this."""
    return PreflightLine("", subject, "wrong", text, todo)


def unknown(subject: str, text: str, todo: str) -> PreflightLine:
    """It cannot be judged from here."""
    return PreflightLine("", subject, "unknown", text, todo)


def judged(rules: Mapping[str, Rule[_P]], picture: _P, subject: str) -> list[PreflightLine]:
    """The lines of all rules, in their order, as ``seen_by`` has them."""
    return [replace(seen, name=name) for name, rule in rules.items() for seen in seen_by(rule, picture, subject)]


def seen_by(rule: Rule[_P], picture: _P, subject: str) -> list[PreflightLine]:
    """All that a rule sees; one that cannot see on ends with an unknown line of ``subject``."""
    found: list[PreflightLine] = []
    try:
        found.extend(rule(picture))
    except UnseenError as error:
        found.append(unknown(subject, str(error), error.todo))
    except OSError as error:
        found.append(unknown(subject, f"it cannot be read: {error}", "run it as root"))
    except Exception as error:
        found.append(unknown(subject, *not_judged(error)))
    return found


def is_wrong(lines: Sequence[PreflightLine]) -> bool:
    """Is anything wrong? An unknown thing is not."""
    return any(line.judgement == "wrong" for line in lines)


def as_text(lines: Sequence[PreflightLine]) -> str:
    """For people: a line for each judgement, in columns, and the counts below."""
    rows = [
        (
            line.judgement.upper() if line.judgement == "wrong" else line.judgement,
            line.name,
            line.subject,
            f"{line.text}; {line.todo}" if line.todo else line.text,
        )
        for line in lines
    ]
    counts = Counter(line.judgement for line in lines)
    return "\n".join([*text_table(rows), ", ".join(f"{counts[word]} {word}" for word in _JUDGEMENTS)])


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
