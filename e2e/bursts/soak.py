"""``python -m e2e.bursts.soak``: a thousand random bursts. Stopped at any time, it resumes from its state file.

Exit code 0 when no burst had a finding, 1 when one had, or does not end (its seed is printed: ``--only`` plays it again), 130 when
stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from clusters.providers import MADE, Choices
from clusters.targets import load_target
from e2e.bursts.burst_stage import BURSTS_OF_A_WORLD, open_player, smaller, venue_of
from e2e.bursts.result import Result, total
from e2e.report.sources import commit_number
from e2e.report.verdict_files import write_whole

_STATE: Final = Path("artefacts") / "soak-bursts.json"
# Against a burst that never ends: this many times the longest time to settle.
_LONGEST: Final = 4


class HangingBurstError(Exception):
    """A burst that did not end."""


@dataclass
class Progress:
    """The bursts played, kept in a file after each burst."""

    seed: int
    results: list[Result] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path, seed: int | None) -> Progress:
        """Go on with the file's seed; another ``seed`` starts over. Raises ValueError for a file that is not ours."""
        if not path.exists():
            return cls(commit_number() if seed is None else seed)
        try:
            progress = msgspec.json.decode(path.read_bytes(), type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{path} is not the state of a soak ({error!r}); remove it to begin again") from error
        return progress if seed in (None, progress.seed) else cls(seed or 0)

    def add(self, path: Path, result: Result) -> None:
        """One more; the file is replaced in one step."""
        self.results.append(result)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, msgspec.json.encode(self).decode())


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    arguments = _parser().parse_args(argv)
    try:
        progress = Progress.load(arguments.state, arguments.seed)
    except ValueError as error:
        sys.stderr.write(f"soak: {error}\n")
        return 1
    try:
        return asyncio.run(_until_signal(arguments, progress))
    except HangingBurstError as error:
        sys.stderr.write(f"soak: {error}\n")
        return 1
    except asyncio.CancelledError:
        _say(f"stopped after {len(progress.results)} of {arguments.bursts}; the same command goes on")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bursts.soak", description=__doc__)
    parser.add_argument("--bursts", type=int, default=1000, help="how many in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="default: that of the state file, else the commit")
    parser.add_argument("--state", type=Path, default=_STATE, help="default: %(default)s")
    parser.add_argument("--only", metavar="SEED/NUMBER", help="play this burst alone, and keep no state")
    parser.add_argument("--cluster", default="embedded", choices=MADE)
    parser.add_argument("--target", default="gpushare")
    return parser


async def _until_signal(arguments: argparse.Namespace, progress: Progress) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    if arguments.only:
        results: list[Result] = []
        await _play(arguments, [arguments.only], results.append)
        return 1 if results[0].findings else 0
    _say(f"seed {progress.seed}, state in {arguments.state}: {len(progress.results)} of {arguments.bursts} are played")
    while len(progress.results) < arguments.bursts:
        first = len(progress.results)
        numbers = range(first, min(first - first % BURSTS_OF_A_WORLD + BURSTS_OF_A_WORLD, arguments.bursts))
        await _play(
            arguments, [f"{progress.seed}/{number}" for number in numbers], partial(progress.add, arguments.state)
        )
    _say(total(progress.results))
    failed = [one for one in progress.results if one.findings]
    for one in failed:
        _say(one.text())
    return 1 if failed else 0


async def _play(arguments: argparse.Namespace, seeds: Sequence[str], take: Callable[[Result], None]) -> None:
    target, choices = load_target(arguments.target, os.environ), Choices(dict(os.environ))
    async with open_player(arguments.cluster, target, choices, seeds[0]) as player:
        venue = venue_of(arguments.cluster)
        for seed in seeds:
            seconds = venue.settle_seconds * _LONGEST
            try:
                async with asyncio.timeout(seconds):
                    burst = await venue.burst(seed, player)
                    result = await player.play(burst)
            except TimeoutError as error:
                raise HangingBurstError(
                    f"burst {seed} has not ended after {seconds:.0f} s; what was played before it is kept"
                ) from error
            _say(result.text())
            take(result)
            if result.findings:
                _say(player.recent_logs())
            if result.findings and not (arguments.only or venue.is_real):
                _say(await smaller(arguments.cluster, target, choices, burst))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
