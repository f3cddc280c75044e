"""``python -m e2e machine``: the cases on this machine's own cards. It needs a driver, and neither Kubernetes nor a network."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from clusters.provider import ClusterError
from clusters.providers import BARE
from clusters.real_node import RealNode, machine_name
from e2e.onsite.case_run import CODES_HELP, add_report, report_folder, run_cases
from e2e.site import SiteError
from e2e.site.machine_preflight import machine_preflight
from e2e.site.preflight_lines import as_text

_HELP: Final = "run the device plugin and real CUDA processes on this machine's cards, by a stand-in kubelet in an embedded cluster"


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb; see ``look_verbs.add_verbs``."""
    parser = verbs.add_parser("machine", help=_HELP, description=_HELP, epilog=CODES_HELP)
    add_report(parser)
    parser.set_defaults(run=_machine)


def _machine(arguments: argparse.Namespace) -> int:
    folder = report_folder(arguments.report)
    print(as_text(machine_preflight()), flush=True)  # noqa: T201  # a command's output
    try:
        RealNode(machine_name(), Path(), dict(os.environ)).look()
    except ClusterError as error:
        raise SiteError(f"nothing was tried: {error}") from error
    return run_cases(BARE, folder)
