"""The parts of the C library's source that Python writes."""

from __future__ import annotations

from fake_nvml.calls import CALLS
from fake_nvml.core.c_source import header, stubs, version_script
from fake_nvml.eras import ERAS, symbols


def test_only_what_is_not_answered_gets_a_stub() -> None:
    """A function that is answered is written by hand."""
    text = stubs(CALLS)

    assert 'int nvmlDeviceGetVbiosVersion(void) { return fakenvml_not_supported("nvmlDeviceGetVbiosVersion"); }' in text
    assert "nvmlDeviceGetName(" not in text


def test_each_answered_function_is_one_of_a_real_library() -> None:
    """None of ours is invented."""
    assert CALLS.keys() <= frozenset().union(*map(symbols, ERAS))


def test_an_era_exports_what_its_driver_had_and_the_marker() -> None:
    """Everything else is local."""
    old, new = (version_script(branch) for branch in (470, 510))

    assert "nvmlDeviceGetMemoryInfo_v2;" in new
    assert "nvmlDeviceGetMemoryInfo_v2;" not in old
    for script in (old, new):
        assert "nvmlInit;" in script
        assert "fakenvml_version;" in script
        assert script.rstrip().endswith("local: *; };")


def test_every_offset_is_asserted() -> None:
    """The compiler checks that C and Python have the same structs."""
    text = header()

    assert '_Static_assert(offsetof(Card, memory_total) == 232, "offset of Card.memory_total");' in text
    assert '_Static_assert(sizeof(StateFile) == 221696, "size of StateFile");' in text
    assert "    char driver[64];" in text
    assert "    Card cards[64];" in text
    assert "#define UNKNOWN64 0xffffffffffffffffULL" in text
    assert "#define GPU_IS_LOST 15" in text


def test_the_marker_is_no_call() -> None:
    """It is data, and no function of NVML."""
    assert "fakenvml_version" not in CALLS
