"""Connections with an answer that has no end: each piece goes to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gpushare.bounds import Bound


class Listener(Protocol):
    """A connection, as its audience sees it."""

    def send(self, piece: bytes) -> None:
        """Write a piece of the answer; one that does not take the last ones misses it."""


class Audience:
    """The open ones, at most ``most``. A connection that closes leaves by itself."""

    def __init__(self, most: Bound) -> None:
        self._most = most
        self._members: dict[Listener, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Listener]:
        """All as of now."""
        return iter(tuple(self._members))

    @property
    def is_full(self) -> bool:
        """Is there no place for one more?"""
        return self._most.exceeded(len(self) + 1)

    def join(self, member: Listener) -> None:
        """From now on it gets each piece."""
        self._members[member] = None

    def leave(self, member: Listener) -> None:
        """It is closed."""
        self._members.pop(member, None)

    def send(self, piece: bytes) -> None:
        """Write a piece to all."""
        for member in self:
            member.send(piece)
