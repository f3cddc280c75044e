"""The state file's offsets: files that are there, and programs that were compiled, have the layout of their version."""

from __future__ import annotations

import hashlib

from fake_nvml.box import MAX_CARDS
from fake_nvml.core import layout

RECORDS = (layout.Header, layout.Card, layout.Process, layout.Event, layout.Fault, layout.Limit, layout.StateFile)


def test_no_field_moves_without_a_new_version() -> None:
    """The digest is that of each field's name, offset and size in this version, without the room to grow."""
    places = [
        (record.__name__, name, getattr(record, name).offset, getattr(record, name).size)
        for record in RECORDS
        for name, _ in record._fields_
        if name != "reserved"
    ]

    assert (layout.VERSION, layout.SIZE, layout.CARDS) == (5, 352768, MAX_CARDS)
    assert hashlib.sha256(repr(places).encode()).hexdigest()[:16] == "370a5299f4221a30"
