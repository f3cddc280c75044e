"""The open connections of a server: which is given up if there are too many, or if they make it hold too much; and those of them
with an answer that has no end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpushare.bounds import Bound

if TYPE_CHECKING:
    from gpushare.serving.http_connection import HttpConnection


class Connections:
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
        self._opened: dict[HttpConnection, int] = {}
        self.held = 0

    def __len__(self) -> int:
        return len(self._opened)

    def __iter__(self) -> Iterator[HttpConnection]:
        """All as of now."""
        return iter(tuple(self._opened))

    def add(self, connection: HttpConnection) -> None:
        """Count one more."""
        self._opened.setdefault(connection, 0)
        self.none_left.clear()

    def remove(self, connection: HttpConnection) -> None:
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

    def hold(self, connection: HttpConnection, size: int) -> None:
        """So many bytes are held for it now; none if it is closed."""
        if connection in self._opened:
            self.held += size - self._opened[connection]
            self._opened[connection] = size

    def have_room_for(self, connection: HttpConnection) -> bool:
        """Is there room for what this one holds now? Others are given up for it; False if it must be given up itself."""
        while self._most_held.exceeded(self.held):
            victim = _first(holder for holder, size in self._opened.items() if size and not holder.is_busy)
            if victim is None or victim is connection:
                return False
            victim.give_up()
        return True


def _first(connections: Iterable[HttpConnection]) -> HttpConnection | None:
    """The one that is given up first: a stranger, and of equals the one that has been in its state for longest."""
    return min(connections, key=lambda connection: (connection.is_known, connection.since), default=None)


class Audience:
    """The connections to which each piece of an answer without an end goes, at most ``most``. One that closes leaves by itself."""

    def __init__(self, most: Bound) -> None:
        self._most = most
        self._members: dict[HttpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[HttpConnection]:
        """All as of now."""
        return iter(tuple(self._members))

    @property
    def is_full(self) -> bool:
        """Is there no place for one more?"""
        return self._most.exceeded(len(self) + 1)

    def join(self, member: HttpConnection) -> None:
        """From now on it gets each piece."""
        self._members[member] = None

    def leave(self, member: HttpConnection) -> None:
        """It is closed."""
        self._members.pop(member, None)

    def send(self, piece: bytes) -> None:
        """Write a piece to all."""
        for member in self:
            member.send(piece)
