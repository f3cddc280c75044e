"""The parts of a failure, gathered in the process of its case: the sides of its assertion, its last exchanges, the logs."""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import pprint
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any, Final

import msgspec
import pytest

from clusters.api.exchanges import LISTENERS, Event, Exchange
from clusters.api.waiting import NotReachedError
from clusters.processes.program import LAUNCHED
from e2e.report.markup import readable
from e2e.report.verdict_table import Evidence

# The attribute of a pytest report that has the evidence, as plain data, so that a worker can send it.
EVIDENCE: Final = "evidence"
# True of a report whose case met an exception that is no assertion.
CRASH: Final = "is_crash"
_LAST_EXCHANGES: Final = 6
_LONGEST: Final = 6_000
_LONGEST_OF_AN_EXCHANGE: Final = 2_000
_LOG_LINES: Final = 40
_WIDTH: Final = 110
# Nothing is judged of these programs, so their logs are of no use.
_BESIDE: Final = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kubectl port-forward"})
# How relations are worded in which the left side is the expectation.
_RELATIONS: Final = {"in": "with {}", "not in": "without {}"}


class Recorder:
    """Keeps the last exchanges, and makes the evidence, as pytest's hooks: register it as a plugin."""

    def __init__(self) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=_LAST_EXCHANGES)
        self._compared: tuple[CodeType | None, Any, str, Any] | None = None
        self._log_sizes: dict[Path, int] = {}

    def pytest_sessionstart(self) -> None:
        """Listen to the exchanges."""
        LISTENERS.append(self.take)

    def pytest_sessionfinish(self) -> None:
        """Listen no longer."""
        LISTENERS.remove(self.take)

    def take(self, event: Event) -> None:
        """Keep an exchange unformatted, as most are of cases that pass; of a question that is repeated keep the last answer."""
        if isinstance(event, Exchange):
            last = self._exchanges[-1] if self._exchanges else None
            if last is not None and (last.asked, last.question) == (event.asked, event.question):
                self._exchanges.pop()
            self._exchanges.append(event)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A case begins with nothing; what its programs wrote before is not its own."""
        self._exchanges.clear()
        self._compared = None
        self._log_sizes = {path: _size(path) for program in LAUNCHED for path in program.log_files()}

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Note the two sides of the assertion that failed last; pytest explains it."""
        frame = inspect.currentframe()
        while frame and frame.f_code.co_name != "_call_reprcompare":
            frame = frame.f_back
        self._compared = (frame.f_back.f_code if frame and frame.f_back else None, left, op, right)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the evidence of a failure into its report."""
        report = yield
        if report.failed and call.excinfo is not None:
            setattr(report, CRASH, not is_assertion(call.excinfo.value))
            setattr(report, EVIDENCE, msgspec.to_builtins(self._evidence(call.excinfo)))
        return report

    def _evidence(self, failure: pytest.ExceptionInfo[BaseException]) -> Evidence:
        expectation, answer = self._sides(failure)
        requests = tuple(map(_exchange, self._exchanges))
        logs = {
            program.name: text
            for program in sorted(LAUNCHED, key=lambda one: one.name)
            if program.name not in _BESIDE and (text := _tail(program.log_files(), self._log_sizes))
        }
        return Evidence(expectation, answer, difference(expectation, answer), requests, logs)

    def _sides(self, failure: pytest.ExceptionInfo[BaseException]) -> tuple[str, str]:
        """The expectation, "" if it is not known, and the answer."""
        error, last = failure.value, failure.traceback[-1]
        if isinstance(error, NotReachedError):
            what, _, seen = str(error).partition("not reached: ")[2].partition("; last seen: ")
            if seen:
                return _shortened(what), _shortened(seen)
        statement = str(last.statement).strip()
        # Another assertion may have failed before, and been caught.
        if self._compared is not None and self._compared[0] is last.frame.code.raw:
            _, left, op, right = self._compared
            expected, found = (left, right) if op in _RELATIONS else (right, left)
            words = _RELATIONS.get(op, "{}" if op == "==" else f"{op} {{}}")
            return _shortened(words.format(_text(expected))), _shortened(_text(found))
        if isinstance(error, AssertionError):
            # pytest shows the sides of assertions in tests alone, and not in what they call.
            return _condition(statement), _shortened(str(error) or "it does not hold")
        return "", _shortened(failure.exconly())


def is_assertion(error: BaseException) -> bool:
    """Is it a judgement about the target, and not a crash of the case?"""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_assertion, error.exceptions))
    return isinstance(error, AssertionError | pytest.fail.Exception)


def _condition(statement: str) -> str:
    """The condition of an assertion; "" if the statement is none."""
    with contextlib.suppress(SyntaxError):
        match ast.parse(statement).body:
            case [ast.Assert(test=test)]:
                return ast.unparse(test)
    return ""


def difference(expectation: str, answer: str) -> str:
    """The lines that differ; "" if both sides have one line."""
    sides = expectation.splitlines(), answer.splitlines()
    if max(map(len, sides)) < 2:
        return ""
    return _shortened("\n".join(difflib.unified_diff(*sides, "expectation", "answer", lineterm="", n=1)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else pprint.pformat(value, width=_WIDTH, sort_dicts=False)


def _exchange(one: Exchange) -> str:
    question, answer = (
        part.decode(errors="replace") if isinstance(part, bytes) else str(part) for part in (one.question, one.answer)
    )
    question = "" if question == "None" else f"\n{_shortened(question, _LONGEST_OF_AN_EXCHANGE)}"
    return readable(f"{one.asked}{question}\n-> {one.code} {_shortened(answer, _LONGEST_OF_AN_EXCHANGE)}")


def _shortened(text: str, longest: int = _LONGEST) -> str:
    more = f"… ({len(text)} characters)" if len(text) > longest else ""
    return readable(text[:longest].rstrip()) + more


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _tail(paths: Iterable[Path], begun: Mapping[Path, int]) -> str:
    """The last lines of these files, without the first bytes of each that ``begun`` has."""
    lines: list[str] = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(begun.get(path, 0))
            lines += file.read().decode(errors="replace").splitlines()
    return _shortened("\n".join(lines[-_LOG_LINES:]))
