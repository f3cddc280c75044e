"""The console script: a command → the lists that it needs → an answer on stdout; errors, and what is hidden, on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO

from gpushare.cli import answer_forms
from gpushare.errors import GpushareError, UsageError
from gpushare.kube import config
from gpushare.kubectl_gpushare import command_answers, gpushare_arguments, manifest_files
from gpushare.kubectl_gpushare.cluster_reading import Progress
from gpushare.kubectl_gpushare.core import answer_text
from gpushare.kubectl_gpushare.gpushare_arguments import (
    Arguments,
    DoctorArguments,
    EventsArguments,
    ExplainArguments,
    SimulateArguments,
    TopArguments,
)

# By command: the names, and the text for people.
_FORMS: Final[dict[type[Arguments], tuple[Callable[[Any], str], Callable[..., str]]]] = {
    ExplainArguments: (answer_text.explanation_names, answer_text.explanation_text),
    SimulateArguments: (answer_text.simulation_names, answer_text.simulation_text),
    EventsArguments: (answer_text.events_names, answer_text.events_text),
    DoctorArguments: (answer_text.diagnosis_text, answer_text.diagnosis_text),
}
# The exit code of --check and doctor.
_FOUND = 3


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0, 1 if the API server refuses or is silent or the pod is unknown, 2 for flags or
    a manifest that make no sense, 3 if doctor finds something, or simulate --check has pods without room or not judged.
    """
    program, words = sys.argv[0], sys.argv[1:] if argv is None else argv
    return answer_forms.exit_code(
        lambda: run(gpushare_arguments.parse(program, words), os.environ, sys.stdin, sys.stdout, sys.stderr)  # noqa: TID251  # a main
    )


def run(asked: Arguments, environment: Mapping[str, str], given: TextIO, out: TextIO, err: TextIO) -> int:
    """Do the same as ``main``, with its surroundings passed in."""
    out, err = map(answer_forms.on_terminal, (out, err))
    try:
        answer = asyncio.run(_answer(asked, environment, given, Progress(err, time.monotonic)))
    except (GpushareError, OSError) as error:
        err.write(f"error: {error}\n")
        return 2 if isinstance(error, UsageError) else 1
    text = _text(asked, answer)
    out.write(text)
    out.flush()
    if not text and asked.view.output != answer_forms.NAME:
        err.write("No resources found\n")
    err.writelines(f"not judged: {answer_forms.printable(one)}\n" for one in answer.get("unjudged", ()))
    err.writelines(f"warning: {answer_forms.printable(one)}\n" for one in answer.get("warnings", ()))
    err.writelines(f"hidden: {answer_forms.printable(one)}\n" for one in answer["hidden"])
    return _FOUND if _has_found(asked, answer) else 0


def _has_found(asked: Arguments, answer: dict[str, Any]) -> bool:
    if isinstance(asked, SimulateArguments):
        lacks_room = any(one["placed"] < one["replicas"] for one in answer["workloads"])
        return asked.check and (lacks_room or bool(answer["unjudged"]))
    return isinstance(asked, DoctorArguments) and bool(answer["findings"])


async def _answer(
    asked: Arguments, environment: Mapping[str, str], given: TextIO, progress: Progress
) -> dict[str, Any]:
    """Raises GpushareError and OSError."""
    api = asked.view.api
    files = api.kubeconfig or environment.get("KUBECONFIG")
    client = config.connect(files, api.context, timeout_seconds=api.request_timeout)
    try:
        namespace = asked.view.namespace or config.default_namespace(files, api.context)
        if isinstance(asked, ExplainArguments):
            return await command_answers.explain(asked, client, namespace, progress, time.time())  # noqa: TID251  # a main
        if isinstance(asked, TopArguments):
            return await command_answers.show_use(asked, client, namespace, progress)
        if isinstance(asked, EventsArguments):
            return await command_answers.list_events(asked, client, namespace, progress)
        if isinstance(asked, DoctorArguments):
            return await command_answers.diagnose(asked, client, progress, time.time())  # noqa: TID251  # a main
        manifest = manifest_files.read(asked.filenames, given, recursive=asked.recursive)
        return await command_answers.simulate_manifest(asked, client, namespace, progress, manifest)
    finally:
        await client.close()


def _text(asked: Arguments, answer: dict[str, Any]) -> str:
    form = asked.view.output
    if form in (answer_forms.JSON, answer_forms.YAML):
        return answer_forms.document(form, answer)
    answer = answer_text.with_ages(answer, time.time())  # noqa: TID251  # a main
    if isinstance(asked, TopArguments):
        things, _ = asked.wanted
        if form == answer_forms.NAME:
            return answer_text.top_names(answer, things)
        return answer_text.top_text(answer, things, headers=not asked.view.no_headers)
    names, text = _FORMS[type(asked)]
    if form == answer_forms.NAME:
        return names(answer)
    return text(answer, wide=form == answer_forms.WIDE, headers=not asked.view.no_headers)


if __name__ == "__main__":
    sys.exit(main())
