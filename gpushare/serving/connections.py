"""All connections of a server together: how many there are, and how many bytes they make us hold.

If either passes its bound, something is given up so that the newest caller is served: a stranger before a caller that is
known, and the one that has waited longest before the others. A scheduler asks and listens without a pause, so its
connections are the last that this meets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpushare.bounds import Bound

if TYPE_CHECKING:
    from gpushare.serving.http_connection import HttpConnection


class Connections:
    """Those that are open; ``none_left`` is set while there are none."""

    def __init__(self, bytes_held: Bound) -> None:
        self.none_left = asyncio.Event()
        self.none_left.set()
        self.held = 0
        self._most_held = bytes_held
        self._opened: set[HttpConnection] = set()

    def __len__(self) -> int:
        return len(self._opened)

    def __iter__(self) -> Iterator[HttpConnection]:
        """All as of now."""
        return iter(tuple(self._opened))

    def add(self, connection: HttpConnection) -> None:
        """Count one more."""
        self._opened.add(connection)
        self.none_left.clear()

    def remove(self, connection: HttpConnection) -> None:
        """It is closed, or will be immediately."""
        self._opened.discard(connection)
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

    def hold(self, connection: HttpConnection, amount: int) -> bool:
        """Hold this many bytes more for the connection; False if the connection itself must be given up."""
        self.held += amount
        connection.held += amount
        while self._most_held.exceeded(self.held):
            victim = _first(holder for holder in self._opened if holder.held and not holder.is_busy)
            if victim is None or victim is connection:
                return False
            victim.give_up()
        return True

    def release(self, connection: HttpConnection, amount: int) -> None:
        """They are free again."""
        self.held -= amount
        connection.held -= amount


def _first(connections: Iterable[HttpConnection]) -> HttpConnection | None:
    """The one that is given up first: a stranger, and of equals the one that has been in its state for longest."""
    return min(connections, key=lambda connection: (connection.is_known, connection.since), default=None)
