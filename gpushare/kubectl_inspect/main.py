"""The console script: arguments → two lists → a table or a document on stdout; errors, and below the table warnings, on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from gpushare.errors import GpushareError, UsageError
from gpushare.kube import config
from gpushare.kube.api_errors import NotFoundError
from gpushare.kubectl_inspect import inspect_arguments
from gpushare.kubectl_inspect.core import card_report, report_text
from gpushare.kubectl_inspect.inspect_arguments import Arguments
from gpushare.manifests import Node, Pod

# The exit code of a program that Ctrl-C ended, as shells report it.
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0, 1 if the API server refuses or is silent, 2 for flags or a kubeconfig that make no sense."""
    program, words = sys.argv[0], sys.argv[1:] if argv is None else argv
    try:
        return run(inspect_arguments.parse(program, words), os.environ, sys.stdout, sys.stderr)  # noqa: TID251  # a main
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough (head, less); the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(asked: Arguments, environment: Mapping[str, str], out: TextIO, err: TextIO) -> int:
    """Do the same as ``main``, with its surroundings passed in."""
    try:
        nodes, pods = asyncio.run(_collect(asked, environment))
    except GpushareError as error:
        err.write(f"error: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    reports, problems = card_report.build(nodes, pods)
    namespace = None if asked.all_namespaces else asked.namespace
    shown = report_text.select(reports, namespace, asked.sort_by)
    if asked.output is not None:
        out.write(report_text.render(asked.output, shown, problems))
    else:
        out.write((report_text.details if asked.details else report_text.summary)(shown, headers=not asked.no_headers))
    out.flush()
    err.writelines(f"warning: {problem}\n" for problem in problems)
    return 0


async def _collect(asked: Arguments, environment: Mapping[str, str]) -> tuple[list[Node], list[Pod]]:
    """All nodes and pods, or one node and its pods. Raises GpushareError."""
    api = asked.api
    files = api.kubeconfig or environment.get("KUBECONFIG")
    client = config.connect(files, api.context, timeout_seconds=api.request_timeout)
    try:
        if asked.node is None:
            return await client.list_nodes(), await client.list_pods()
        node = await client.get_node(asked.node)
        return [node], await client.list_pods(f"spec.nodeName={asked.node}")
    except NotFoundError as error:
        raise NotFoundError(f"there is no node {asked.node!r}; `kubectl get nodes` lists them", error.code) from error
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
