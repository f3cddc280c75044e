"""The console script: a command → the lists that it needs → an answer on stdout; errors, and what is hidden, on stderr."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO

from gpushare.cli import answer_forms
from gpushare.kube import config
from gpushare.kubectl_gpushare import command_answers, gpushare_arguments
from gpushare.kubectl_gpushare.cluster_reading import Reading
from gpushare.kubectl_gpushare.core import answer_text
from gpushare.kubectl_gpushare.gpushare_arguments import (
    Arguments,
    DoctorArguments,
    EventsArguments,
    ExplainArguments,
    SimulateArguments,
    TopArguments,
)

# By command: the answer, its names, and its text for people.
_FORMS: Final[dict[type[Arguments], tuple[Callable[..., Any], Callable[..., str], Callable[..., str]]]] = {
    ExplainArguments: (command_answers.explain, answer_text.explanation_names, answer_text.explanation_text),
    SimulateArguments: (command_answers.simulate_manifest, answer_text.simulation_names, answer_text.simulation_text),
    TopArguments: (command_answers.show_use, answer_text.top_names, answer_text.top_text),
    EventsArguments: (command_answers.list_events, answer_text.events_names, answer_text.events_text),
    DoctorArguments: (command_answers.diagnose, answer_text.diagnosis_text, answer_text.diagnosis_text),
}
# The exit code of --check and doctor.
_FOUND = 3


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0, 1 if the API server refuses or is silent or the pod is unknown, 2 for flags or
    a manifest that make no sense, 3 if doctor finds something, or simulate --check has pods without room or not judged.
    """
    program, words = sys.argv[0], sys.argv[1:] if argv is None else argv
    outside = os.environ, sys.stdin, sys.stdout, sys.stderr  # noqa: TID251  # a main
    return answer_forms.exit_code(lambda: run(gpushare_arguments.parse(program, words), *outside))


def run(asked: Arguments, environment: Mapping[str, str], given: TextIO, out: TextIO, err: TextIO) -> int:
    """Do the same as ``main``, with its surroundings passed in. Raises GpushareError and OSError."""
    out, err = map(answer_forms.on_terminal, (out, err))
    answer = asyncio.run(_answer(asked, environment, given))
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


async def _answer(asked: Arguments, environment: Mapping[str, str], given: TextIO) -> dict[str, Any]:
    """Raises GpushareError and OSError."""
    api = asked.view.api
    files = api.kubeconfig or environment.get("KUBECONFIG")
    async with config.connect(files, api.context, timeout_seconds=api.request_timeout) as client:
        namespace = asked.view.namespace or config.default_namespace(files, api.context)
        reading = Reading(client, namespace, given, time.time())  # noqa: TID251  # a main
        answer: dict[str, Any] = await _FORMS[type(asked)][0](asked, reading)
        return answer


def _text(asked: Arguments, answer: dict[str, Any]) -> str:
    form = asked.view.output
    if form in (answer_forms.JSON, answer_forms.YAML):
        return answer_forms.document(form, answer)
    answer = answer_text.with_ages(answer, time.time())  # noqa: TID251  # a main
    _, names, text = _FORMS[type(asked)]
    things = {"things": asked.wanted[0]} if isinstance(asked, TopArguments) else {}
    if form == answer_forms.NAME:
        return names(answer, **things)
    return text(answer, wide=form == answer_forms.WIDE, headers=not asked.view.no_headers, **things)


if __name__ == "__main__":
    sys.exit(main())
