"""The console script ``kubectl_complete-inspect-gpushare``: kubectl asks it to complete ``kubectl inspect gpushare``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpushare.cli import answer_forms
from gpushare.cli.completion import answer
from gpushare.cli.flags import flags_of
from gpushare.kubectl_inspect.inspect_arguments import Arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, also if there is no completion."""
    words = sys.argv[1:] if argv is None else argv
    return answer_forms.exit_code(lambda: answer([*flags_of(Arguments)], words, os.environ, sys.stdout))  # noqa: TID251  # a main


if __name__ == "__main__":
    sys.exit(main())
