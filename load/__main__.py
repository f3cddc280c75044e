"""``python -m load``: the commands of the load tests; each explains itself with ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from load.load_commands import exit_code
from load.play import run_command as run
from load.replay import replay_command as replay


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m load", description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (run, replay):
        command.add_to(commands)
    options = parser.parse_args(argv)
    return exit_code(options.name, lambda: int(options.run(options)))


if __name__ == "__main__":
    sys.exit(main())
