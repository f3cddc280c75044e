"""``python -m e2e flakes``: one run of the suite many times, each in another random order, on processors that are kept busy."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from clusters.processes.tied import tied
from e2e.reference.faulty_implementations import outcomes_of
from e2e.report.sources import commit_number

ROOT: Final = Path(__file__).parents[1]
_HELP: Final = (
    "run the suite many times, each in another random order on busy processors, and list the tests that failed"
)
_REPORTS: Final = Path("artefacts", "flakes")
_NOTHING_RAN: Final = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb ``flakes``."""
    parser = verbs.add_parser("flakes", help=_HELP, description=_HELP)
    parser.add_argument("--runs", type=int, default=50, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="the seeds of the runs follow from this number (default: the commit)")
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count(), help="loops beside the runs (default: one for each processor)"
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="what pytest is given, after `--`")
    parser.set_defaults(run=_run)


def seeds(first: int, runs: int) -> list[int]:
    """The seed of each run; more runs have the same ones first. Pure."""
    chance = random.Random(first)
    return [chance.randrange(1 << 31) for _ in range(runs)]


def _run(arguments: argparse.Namespace) -> int:
    first = commit_number() if arguments.seed is None else arguments.seed
    _report(f"{arguments.runs} runs by seed {first}; {arguments.busy} loops keep the processors busy")
    failed = 0
    with _busy(arguments.busy):
        for number, seed in enumerate(seeds(first, arguments.runs), 1):
            failed += _play(number, seed, arguments.words)
    _report(f"{failed} of {arguments.runs} runs had failures; logs and reports: {_REPORTS}")
    return int(failed > 0)


def _play(number: int, seed: int, words: Sequence[str]) -> bool:
    """One run, with a line for it and for each failure; did any test fail? Raises ValueError if pytest could not begin."""
    name = ROOT / _REPORTS / f"run-{number}"
    report, log = name.with_suffix(".xml"), name.with_suffix(".log")
    argv = [sys.executable, "-u", "-m", "pytest", *words, "--seed", str(seed), "--burst-seed", str(seed)]
    argv += [f"--verdicts={name}", f"--junitxml={report}", "-p", "no:cacheprovider"]
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    with log.open("w") as output, subprocess.Popen(tied(argv), cwd=ROOT, stdout=output, stderr=output) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # It got Ctrl-C too, and ends its clusters.
            process.wait()
            raise
    text = log.read_text(errors="replace")
    if code in _NOTHING_RAN:
        raise ValueError(text.strip())
    outcomes = outcomes_of(report.read_text()) if report.is_file() else {}
    again = [line for line in text.splitlines() if line.startswith("again: ")]
    failed = [name for name, word in outcomes.items() if word in ("failed", "error")]
    failures = again + [name for name in failed if not any(name in line for line in again)]
    if code and not failures:
        failures = [f"pytest ended with {code}: {log}"]
    counts = ", ".join(f"{count} {word}" for word, count in sorted(Counter(outcomes.values()).items()))
    about = f"run {number}, seed {seed}: {counts}; {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}"
    _report("\n  ".join([about, *failures]))
    return bool(failures)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Loops that end with the block, or with this process."""
    running = [subprocess.Popen(tied([sys.executable, "-c", "while True: pass"])) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _report(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # a command's output
