"""Which connection of a server is given up if there are too many, or if they make it hold too much."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from gpushare.bounds import Bound


class OpenConnection(Protocol):
    """A connection as the others see it; ``since``: when its present state began."""

    is_known: bool
    since: float

    @property
    def is_busy(self) -> bool:
        """Does the client wait for our answer?"""

    def abort(self) -> None:
        """Close it immediately."""

    def give_up(self) -> None:
        """End it in favour of another."""


_C = TypeVar("_C", bound=OpenConnection)


class Connections(Generic[_C]):
    """All open connections of a server together: how many there are, and how many bytes they make us hold.

    If either passes its bound, something is given up so that the newest caller is served: a stranger before a caller that is
    known, and the one that has waited longest before the others. A scheduler asks and listens without a pause, so its
    connections are the last that this meets. ``none_left`` is set while there are none.
    """

    def __init__(self, bytes_held: Bound) -> None:
        self.none_left = asyncio.Event()
        self.none_left.set()
        self._most_held = bytes_held
        # With the bytes that each makes us hold, and the sum of these.
        self._opened: dict[_C, int] = {}
        self.held = 0

    def __len__(self) -> int:
        return len(self._opened)

    def __iter__(self) -> Iterator[_C]:
        """All as of now."""
        return iter(tuple(self._opened))

    def add(self, connection: _C) -> None:
        """Count one more."""
        self._opened.setdefault(connection, 0)
        self.none_left.clear()

    def remove(self, connection: _C) -> None:
        """It is closed, or will be immediately."""
        self.held -= self._opened.pop(connection, 0)
        if not self._opened:
            self.none_left.set()

    def make_room(self) -> bool:
        """Close the connection that has waited longest for its next request; False if all wait for us."""
        victim = _first(connection for connection in self._opened if not connection.is_busy)
        if victim is None:
            return False
        victim.abort()
        self.remove(victim)
        return True

    def hold(self, connection: _C, size: int) -> None:
        """So many bytes are held for it now; none if it is closed."""
        if connection in self._opened:
            self.held += size - self._opened[connection]
            self._opened[connection] = size

    def have_room_for(self, connection: _C) -> bool:
        """Is there room for what this one holds now? Others are given up for it; False if it must be given up itself."""
        while self._most_held.exceeded(self.held):
            victim = _first(holder for holder, size in self._opened.items() if size and not holder.is_busy)
            if victim is None or victim is connection:
                return False
            victim.give_up()
        return True


def _first(connections: Iterable[_C]) -> _C | None:
    """The one that is given up first: a stranger, and of equals the one that has been in its state for longest."""
    return min(connections, key=lambda connection: (connection.is_known, connection.since), default=None)
