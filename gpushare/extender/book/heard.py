"""Of which objects the book was told lately, while somebody wants to know."""

from __future__ import annotations


class Heard:
    """Remembers the last word of each object, by uid of a pod or name of a node, between ``start`` and ``stop`` only.

    Words are counted, not timed: whoever notes the ``mark`` can ask later what came ``since``.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] | None = None
        self._count = 0
        # The count at which the book was told something of every object.
        self._all = 0

    def start(self) -> None:
        """From now on words are remembered."""
        self._last = {}

    def stop(self) -> None:
        """All is forgotten."""
        self._last = None

    def note(self, key: str) -> None:
        """The book was told something of this object, be it old or new."""
        if self._last is not None:
            self._count += 1
            self._last[key] = self._count

    def note_all(self) -> None:
        """The book was told something of every object: the API server's history went back."""
        self._count += 1
        self._all = self._count

    def mark(self) -> int:
        """Now."""
        return self._count

    def since(self, key: str, mark: int) -> bool:
        """Was anything said of it after that mark? While nobody listens: perhaps, so yes."""
        return self._last is None or max(self._all, self._last.get(key, 0)) > mark
