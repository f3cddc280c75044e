"""``python -m clusters.kind.engine up|down|status``: the Docker that runs kind's nodes.

`up` uses a Docker that answers already, or starts a private one as root, with images in the cache (GPUSHARE_CACHE moves it);
it goes on when the command has ended. `down` ends the private one and removes the rules that were added to another Docker; under
a run of another checkout it stays. `status` prints the present state.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clusters.kind.engine import egress
from clusters.kind.engine.docker_client import RUN, Place, place_of
from clusters.kind.engine.engine import down, find, known_kind, reason_against, up, users
from clusters.processes.commands import exit_code_of
from clusters.provider import ClusterError


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``, also 1 for a status without a Docker that answers; 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    environment = dict(os.environ)
    place = place_of(environment, arguments.run_folder)
    verbs: dict[str, Callable[[], object]] = {
        "up": lambda: up(environment, sys.stderr, place),
        "down": lambda: down(environment, sys.stderr, place, force=arguments.force),
        "status": lambda: print(_status(environment, place)),  # noqa: T201  # a command's answer
    }
    return exit_code_of("docker", verbs[arguments.command])


def _status(environment: Mapping[str, str], place: Place) -> str:
    """The present state. Raises ClusterError if no Docker answers."""
    engine = find(environment, place)
    if engine is None:
        raise ClusterError(reason_against(environment) or "no Docker answers")
    try:
        rejected = f"packets that tried to leave the machine, all rejected: {egress.egress_packets(environment)}"
    except ClusterError as error:
        rejected = str(error)
    where = engine.environment.get("DOCKER_HOST", "where `docker` finds it")
    return (
        f"docker {engine.version}, {'private' if engine.private else 'not ours'}, at {where}\n"
        f"kind: {known_kind(environment) or 'not built yet'}\nused by {users(place)}\n{rejected}"
    )


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
    parser.add_argument("--force", action="store_true", help="down: end it also under runs, which then fail")
    return parser


if __name__ == "__main__":
    sys.exit(main())
