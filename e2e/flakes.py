"""``python -m e2e flakes``: one run of the suite many times, each in another random order, on processors that are kept busy.

The outcome of each finished run stays in the user's cache, by the state of the sources and by what is run. A call that was ended
early goes on with the next run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from clusters.controlplane.binaries import cache_folder
from clusters.processes.tied import tied
from e2e.reference.faulty_implementations import outcomes_of
from e2e.report.sources import commit_number, state

ROOT: Final = Path(__file__).parents[1]
_HELP: Final = (
    "run the suite many times, each in another random order on busy processors, and list the tests that failed"
)
_FAILED, _INTERRUPTED = 1, 130
_NOTHING_RAN: Final = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)


class Outcome(msgspec.Struct, frozen=True):
    """One finished run."""

    number: int
    seed: int
    seconds: float
    load: float
    """Processes that wanted a processor, over the last minute of the run."""
    counts: dict[str, int]
    """Tests by outcome."""
    failures: tuple[str, ...]
    """What failed, each with the command that repeats it."""

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {word}" for word, number in sorted(self.counts.items()))
        about = f"run {self.number}, seed {self.seed}: {counts}; {self.seconds:.0f} s, load {self.load:.1f}"
        return "\n".join([about, *(f"  {failure}" for failure in self.failures)])


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


def read(folder: Path) -> dict[int, Outcome]:
    """The finished runs, by number. Raises ValueError for a file that is none of ours."""
    found = [msgspec.json.decode(path.read_bytes(), type=Outcome) for path in sorted(folder.glob("*.json"))]
    return {one.number: one for one in found}


def _run(arguments: argparse.Namespace) -> int:
    first = commit_number() if arguments.seed is None else arguments.seed
    folder = _folder(first, arguments.words)
    if len(read(folder)) >= arguments.runs:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    done = read(folder)
    about = f"{arguments.runs} runs by seed {first}, {len(done)} of them finished before"
    _report(f"{about}; {arguments.busy} loops keep the processors busy")
    for outcome in done.values():
        _report(str(outcome))
    try:
        with _busy(arguments.busy):
            for number, seed in enumerate(seeds(first, arguments.runs), 1):
                if number not in done:
                    done[number] = _play(folder, number, seed, arguments.words)
                    _report(str(done[number]))
    except KeyboardInterrupt:
        _report(f"{len(done)} of {arguments.runs} runs are finished: the same call goes on with the next")
        return _INTERRUPTED
    failed = sum(bool(one.failures) for one in done.values())
    _report(f"{failed} of {len(done)} runs had failures; logs and reports: {folder}")
    return _FAILED if failed else 0


def _play(folder: Path, number: int, seed: int, words: Sequence[str]) -> Outcome:
    """One run, and its outcome written down. Raises ValueError if pytest could not begin."""
    name = folder / f"run-{number}"
    report, log = name.with_suffix(".xml"), name.with_suffix(".log")
    argv = [sys.executable, "-u", "-m", "pytest", *words, "--seed", str(seed), "--burst-seed", str(seed)]
    argv += [f"--verdicts={name}", f"--junitxml={report}", "-p", "no:cacheprovider"]
    began = time.monotonic()
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
    seconds, load = time.monotonic() - began, os.getloadavg()[0]
    outcome = Outcome(number, seed, seconds, load, Counter(outcomes.values()), tuple(failures))
    name.with_suffix(".json").write_bytes(msgspec.json.encode(outcome))
    return outcome


def _folder(first: int, words: Sequence[str]) -> Path:
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:8]
    return cache_folder(os.environ).parent / "flakes" / f"{state(ROOT)}-{first}-{digest}"


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
