"""``python -m clusters.kind.engine up|down|status``: the Docker that runs kind's nodes.

`up` uses a Docker that answers already, or starts a private one as root, with images in the cache (GPUSHARE_CACHE moves it);
it goes on when the command has ended, and this checkout is registered as one that uses it. `down` ends the private one and removes
the rules that were added to another Docker; while other checkouts use it, it stays. `status` prints the present state.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.kind.engine import egress
from clusters.kind.engine.engine import down, find, reason_against, up, users
from clusters.kind.engine.kind_program import known_kind
from clusters.kind.engine.place import RUN, place_of
from clusters.provider import ClusterError


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when done (status: a Docker answers), 1 when it failed, 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    # A signal leaves nothing half started, as Ctrl-C does.
    signal.signal(signal.SIGTERM, _interrupt)
    environment = dict(os.environ)
    place = place_of(environment, arguments.run_folder)
    try:
        if arguments.command == "up":
            up(environment, sys.stderr, place)
        elif arguments.command == "down":
            down(environment, sys.stderr, place, force=arguments.force)
        else:
            return _status(environment, arguments.run_folder)
    except ClusterError as error:
        print(f"docker: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return 1
    except KeyboardInterrupt as interrupted:
        print("docker: interrupted", file=sys.stderr)  # noqa: T201  # what became of the command
        return 128 + (interrupted.args[0] if interrupted.args else signal.SIGINT)
    return 0


def _status(environment: Mapping[str, str], run: Path) -> int:
    engine = find(environment, place_of(environment, run))
    if engine is None:
        print(reason_against(environment))  # noqa: T201  # a command's answer
        return 1
    where = engine.environment.get("DOCKER_HOST", "where `docker` finds it")
    lines = [
        f"docker {engine.version}, {'private' if engine.private else 'not ours'}, at {where}",
        f"kind: {known_kind(environment) or 'not built yet'}",
        f"used by {users(environment, place_of(environment, run))}",
    ]
    try:
        counts = egress.egress_counts(environment)
        lines.append(
            f"packets that tried to leave the machine, all rejected: {counts.elsewhere}, "
            f"and to Services and pods that a node knew no way to: {counts.cluster}"
        )
    except ClusterError as error:
        lines.append(str(error))
    print("\n".join(lines))  # noqa: T201  # a command's answer
    return 0


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m clusters.kind.engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument(
        "--run-folder",
        type=Path,
        default=RUN,
        metavar="DIR",
        help="where the private Docker has its socket, log and state (default: %(default)s)",
    )
    parser.add_argument(
        "--force", action="store_true", help="down: end it also while runs and other checkouts use it, which then fail"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
