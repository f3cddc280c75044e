"""The console script ``kubectl_complete-gpushare``: kubectl asks it to complete ``kubectl gpushare``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpushare.cli import answer_forms
from gpushare.cli.completion import Completion, answer
from gpushare.cli.flags import flags_of
from gpushare.kubectl_gpushare.gpushare_arguments import VERBS


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, also if there is no completion."""
    words = sys.argv[1:] if argv is None else argv
    return answer_forms.exit_code(lambda: _complete(words))


def _complete(words: Sequence[str]) -> int:
    if len(words) > 1 and words[0] in VERBS:
        return answer([*flags_of(VERBS[words[0]][0])], words[1:], os.environ, sys.stdout)  # noqa: TID251  # a main
    verbs = tuple((verb, description) for verb, (_, description) in VERBS.items())
    sys.stdout.write(Completion(verbs if len(words) < 2 else (), typed="".join(words[:1])).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
