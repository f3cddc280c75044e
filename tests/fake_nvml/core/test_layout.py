"""The state file's offsets: a library in C is compiled against them."""

from __future__ import annotations

import ctypes

import pytest

from fake_nvml.box import MAX_CARDS
from fake_nvml.core import layout


@pytest.mark.parametrize(
    ("field", "offset"),
    [
        (layout.Header.magic, 0),
        (layout.Header.version, 8),
        (layout.Header.sequence, 16),
        (layout.Header.next_event, 32),
        (layout.Header.card_count, 44),
        (layout.Header.init_return, 52),
        (layout.Header.driver, 56),
        (layout.Header.process_rows, 120),
        (layout.Header.refused, 128),
        (layout.Card.uuid, 0),
        (layout.Card.state, 224),
        (layout.Card.memory_total, 232),
        (layout.Card.pci_domain, 256),
        (layout.Card.ecc_corrected, 336),
        (layout.Card.first_event, 360),
        (layout.Card.events, 368),
        (layout.Card.refused, 480),
        (layout.Card.nvswitches, 736),
        (layout.Card.pci_root, 744),
        (layout.Card.reserved, 748),
        (layout.Process.kind, 0),
        (layout.Process.memory, 16),
        (layout.Process.name, 32),
        (layout.Event.number, 0),
        (layout.Event.card, 24),
        (layout.Fault.delay, 80),
        (layout.StateFile.cards, 512),
        (layout.StateFile.processes, 66048),
        (layout.StateFile.events, 197120),
        (layout.StateFile.faults, 213504),
    ],
)
def test_no_field_moves_without_a_new_version(field: object, offset: int) -> None:
    """Each offset is that of the C library."""
    assert field.offset == offset  # type: ignore[attr-defined]


def test_sizes_are_those_of_version_4() -> None:
    """The whole file has the size of the C library's struct."""
    assert (layout.VERSION, layout.SIZE) == (4, 221696)
    assert layout.CARDS == MAX_CARDS


@pytest.mark.parametrize("record", [layout.Header, layout.Card, layout.Process, layout.Event, layout.Fault])
def test_every_field_is_aligned_without_gaps(record: type[ctypes.Structure]) -> None:
    """Padding of the compiler, which another compiler could place otherwise, has a name."""
    end = 0
    for name, _ in record._fields_:
        field = getattr(record, name)
        assert field.offset == end, name
        end = field.offset + field.size
    assert end == ctypes.sizeof(record)


def test_a_text_that_is_no_utf_8_is_a_text() -> None:
    """A driver may answer any bytes."""
    assert layout.as_text(b"Tesla \xff") == "Tesla \ufffd"


def test_a_blank_file_shows_its_layout() -> None:
    """Its beginning shows a library which layout it has."""
    content = layout.blank()

    assert (content.header.magic, content.header.version, content.header.size) == (b"FAKENVML", 4, 221696)
    assert not any(bytes(content)[16:])
