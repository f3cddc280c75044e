"""The parts of the C library's source that Python writes."""

from __future__ import annotations

from fake_nvml.calls import CALLS
from fake_nvml.core.c_source import header, stubs
from fake_nvml.eras import ERAS, symbols


def test_only_what_is_not_answered_gets_a_stub() -> None:
    """A function that is answered is written by hand."""
    text = stubs(CALLS)

    assert 'int nvmlDeviceGetVbiosVersion(void) { return fakenvml_not_supported("nvmlDeviceGetVbiosVersion"); }' in text
    assert "nvmlDeviceGetName(" not in text


def test_each_answered_function_is_one_of_a_real_library() -> None:
    """None of ours is invented."""
    assert CALLS.keys() <= frozenset().union(*map(symbols, ERAS))


def test_every_offset_is_asserted() -> None:
    """The compiler checks that C and Python have the same structs."""
    text = header()

    assert '_Static_assert(offsetof(Card, memory_total) == 232, "offset of Card.memory_total");' in text
    assert '_Static_assert(sizeof(StateFile) == 221696, "size of StateFile");' in text
    assert "    char driver[64];" in text
    assert "    Card cards[64];" in text
    assert "#define UNKNOWN64 0xffffffffffffffffULL" in text
    assert "#define GPU_IS_LOST 15" in text
