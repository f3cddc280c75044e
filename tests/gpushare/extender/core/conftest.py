"""A book."""

from __future__ import annotations

import pytest

from gpushare.extender.core.book import Book
from tests.gpushare.extender.core.booked import node


@pytest.fixture
def book() -> Book:
    """A book that knows one node of two cards with 14 units each."""
    book = Book()
    book.set_node(node())
    return book
