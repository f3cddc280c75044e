"""The console script: arguments → two lists → a table or a document on stdout; errors, and below the table warnings, on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TextIO

from gpushare.cli import answer_forms
from gpushare.kube import config
from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.core import report_text
from gpushare.kubectl_inspect.core.card_report import Finding, NodeReport, findings, report
from gpushare.kubectl_inspect.inspect_arguments import Arguments
from gpushare.kubectl_inspect.node_lists import follow, read_lists

# The exit code of --check.
_FOUND = 3


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0, 1 if the API server refuses or is silent, 2 for flags or a kubeconfig that
    make no sense, 3 if --check finds something.
    """
    program, words = sys.argv[0], sys.argv[1:] if argv is None else argv
    outside = os.environ, sys.stdout, sys.stderr  # noqa: TID251  # a main
    return answer_forms.exit_code(lambda: asyncio.run(run(inspect_arguments.parse(program, words), *outside)))


async def run(asked: Arguments, environment: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Do the same as ``main``, with its surroundings passed in. Raises GpushareError."""
    out, err = map(answer_forms.on_terminal, (out, err))
    api = asked.api
    files = api.kubeconfig or environment.get("KUBECONFIG")
    async with config.connect(files, api.context, timeout_seconds=api.request_timeout) as client:
        if asked.watch:
            await follow(asked, client, partial(_show, asked, out, err))
        lists = await read_lists(asked, client)
    reports, problems = report(lists.nodes, lists.pods, lists.unreadable)
    found: list[str] | None = None
    if asked.check:
        now = time.time()  # noqa: TID251  # a main
        found = [one.text for one in findings(lists.nodes, lists.pods, reports, problems, now, asked.assumed_for)]
    warnings = [one.text for one in problems]
    out.write(_text(asked, reports, warnings, found, headers=not asked.no_headers))
    out.flush()
    err.writelines(f"hidden: {answer_forms.printable(one)}\n" for one in lists.hidden)
    err.writelines(f"warning: {answer_forms.printable(one)}\n" for one in (() if asked.check else warnings))
    err.writelines(f"finding: {answer_forms.printable(one)}\n" for one in found or ())
    return _FOUND if found else 0


def _show(
    asked: Arguments, out: TextIO, err: TextIO, nodes: Sequence[NodeReport], problems: Sequence[Finding], is_first: bool
) -> None:
    warnings = [one.text for one in problems]
    out.write(_text(asked, nodes, warnings, None, headers=is_first and not asked.no_headers))
    out.flush()
    err.writelines(f"warning: {answer_forms.printable(one)}\n" for one in (warnings if is_first else ()))


def _text(
    asked: Arguments,
    reports: Sequence[NodeReport],
    problems: Sequence[str],
    found: Sequence[str] | None,
    *,
    headers: bool,
) -> str:
    nodes = report_text.select(reports, asked.of_namespace, asked.sort_by)
    match asked.output:
        case answer_forms.JSON | answer_forms.YAML as form:
            return report_text.render(form, nodes, problems, **({} if found is None else {"findings": list(found)}))
        case answer_forms.NAME:
            return report_text.names(nodes)
        case answer_forms.WIDE:
            return report_text.wide(nodes, headers=headers)
        case _:
            return (report_text.details if asked.details else report_text.summary)(nodes, headers=headers)


if __name__ == "__main__":
    sys.exit(main())
