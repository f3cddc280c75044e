"""How a command of ``load`` ends."""

from __future__ import annotations

import sys
from collections.abc import Callable


def exit_code(name: str, work: Callable[[], int], *errors: type[Exception]) -> int:
    """The code of the work; 1 and one line on standard error if one of these ended it, 130 if Ctrl-C did."""
    try:
        return work()
    except errors as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
