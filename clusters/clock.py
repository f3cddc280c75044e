"""The time of one cluster: the machine's, or faster, so that what takes minutes can be seen in seconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

# The clock at its start is the machine's; from there it runs ``factor`` times as fast.
REAL: Final = 1.0


class Clock:
    """Handed to everything in a cluster that asks what time it is; ``factor`` 60: a minute of the cluster is a second.

    Waits take time of the cluster too: ``real`` converts one into time of the event loop.
    """

    def __init__(self, factor: float = REAL) -> None:
        if not factor > 0:
            raise ValueError(f"a clock runs forward: factor {factor} is not above 0")
        self.factor = factor
        self._began = time.monotonic()
        self._date = datetime.now(UTC)  # noqa: TID251  # the edge where the time of day comes in

    def monotonic(self) -> float:
        """Seconds of the cluster that never go back."""
        return self._began + self._passed()

    def now(self) -> datetime:
        """The time of day of the cluster, in UTC."""
        return self._date + timedelta(seconds=self._passed())

    def timestamp(self) -> float:
        """The same as seconds since 1970."""
        return self.now().timestamp()

    def real(self, seconds: float) -> float:
        """The seconds that the event loop must wait until that many seconds have passed in the cluster."""
        return seconds / self.factor

    def _passed(self) -> float:
        return (time.monotonic() - self._began) * self.factor
