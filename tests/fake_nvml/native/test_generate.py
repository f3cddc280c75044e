"""What Python writes of the C library's source."""

from __future__ import annotations

from fake_nvml.calls import CALLS
from fake_nvml.eras import ERAS
from fake_nvml.native.generate import bound_symbols, header, stubs, version_script

PYNVML = """
    fn = _nvmlGetFunctionPointer("nvmlDeviceGetName")
    fn = _nvmlGetFunctionPointer('nvmlDeviceGetFanSpeed')
    fn = _nvmlGetFunctionPointer("nvmlDeviceGetMemoryInfo_v2")
"""


def test_the_symbols_are_those_that_pynvml_looks_up() -> None:
    assert bound_symbols(PYNVML) == {"nvmlDeviceGetName", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetMemoryInfo_v2"}


def test_only_what_is_not_answered_gets_a_stub() -> None:
    text = stubs(bound_symbols(PYNVML))

    assert 'int nvmlDeviceGetFanSpeed(void) { return fakenvml_not_supported("nvmlDeviceGetFanSpeed"); }' in text
    assert "nvmlDeviceGetName" not in text


def test_an_era_exports_what_its_driver_had_and_the_marker() -> None:
    old, new = (version_script(bound_symbols(PYNVML), branch) for branch in (470, 510))

    assert "nvmlDeviceGetMemoryInfo_v2;" in new
    assert "nvmlDeviceGetMemoryInfo_v2;" not in old
    for script in (old, new):
        assert "nvmlDeviceGetFanSpeed;" in script
        assert "nvmlInit;" in script
        assert "fakenvml_version;" in script
        assert script.rstrip().endswith("local: *; };")


def test_every_offset_is_asserted() -> None:
    text = header()

    assert '_Static_assert(offsetof(Card, memory_total) == 232, "offset of Card.memory_total");' in text
    assert '_Static_assert(sizeof(StateFile) == 188928, "size of StateFile");' in text
    assert "    char driver[64];" in text
    assert "    Card cards[64];" in text
    assert "#define UNKNOWN64 0xffffffffffffffffULL" in text
    assert "#define GPU_IS_LOST 15" in text


def test_the_marker_is_no_call() -> None:
    assert "fakenvml_version" not in CALLS
    assert ERAS[0] == 418
