"""``python -m e2e``: what an administrator runs on a cluster or a machine, before and after an installation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from e2e.onsite import validate
from e2e.reference import faulty_implementations
from e2e.report import side_by_side
from e2e.site import look_verbs
from e2e.site.unexpected import EXPECTED, noted

_FAILED: Final = 1
_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb; the result is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m e2e", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for module in (look_verbs, validate, side_by_side, faulty_implementations):
        module.add_verbs(verbs)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (*EXPECTED, OSError, ValueError) as error:
        why = str(error)
    except Exception as error:  # an administrator reads a sentence; the traceback is in its log
        why = noted(error)
    print(f"{arguments.verb}: {why}", file=sys.stderr)  # noqa: T201  # a command's error
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
