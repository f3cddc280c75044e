"""The calls between device plugins and the kubelets of this process, judged as they come, so that no history is kept."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from clusters.kubelet.plugin_calls import LOG
from e2e.checkers import UnknownError
from e2e.checkers.judgement import Finding, Judge
from e2e.checkers.plugin_answers import PLUGIN_RULES


class JudgedCalls(logging.Handler):
    """Takes each call that is noted."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._judge = Judge(*PLUGIN_RULES)
        self._crash: UnknownError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Judge it; the kubelet that notes it has no part in a crash of a rule."""
        if isinstance(record.args, tuple):
            try:
                self._judge.take(record.args[0])  # type: ignore[arg-type]  # the logger is for calls alone
            except UnknownError as error:
                self._crash = error

    def findings(self) -> list[Finding]:
        """Those so far. Raises UnknownError if a rule failed in itself."""
        if self._crash is not None:
            raise self._crash
        return self._judge.findings


@contextlib.contextmanager
def judging_calls() -> Iterator[JudgedCalls]:
    """Inside, all calls are judged; they are no log lines of the run."""
    handler, level, propagates = JudgedCalls(), LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(logging.DEBUG)
    LOG.propagate = False
    try:
        yield handler
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        LOG.propagate = propagates
