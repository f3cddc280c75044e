"""Which objects had an event lately, recorded while an audit needs it."""

from __future__ import annotations


class EventMarks:
    """Remembers the last event of each object, by uid of a pod or name of a node, between ``start`` and ``stop`` only.

    Events are counted, not timed: a caller that keeps the ``mark`` can ask later which objects had one ``since``.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] | None = None
        self._count = 0
        # The count at which every object had an event.
        self._all = 0

    def start(self) -> None:
        """From now on events are remembered."""
        self._last = {}

    def stop(self) -> None:
        """Forget all events."""
        self._last = None

    def note(self, key: str) -> None:
        """This object had an event, be it old or new."""
        if self._last is not None:
            self._count += 1
            self._last[key] = self._count

    def note_all(self) -> None:
        """Every object had an event: the API server's history went back."""
        self._count += 1
        self._all = self._count

    def mark(self) -> int:
        """The number of the last event."""
        return self._count

    def since(self, key: str, mark: int) -> bool:
        """Did it have an event after that mark? While nothing is recorded the answer is yes, because it may have had one."""
        return self._last is None or max(self._all, self._last.get(key, 0)) > mark
