"""The NVML edge on simulated cards of every driver era, and on libraries that are none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from fake_nvml.core.layout import COMPUTE, GRAPHICS, MPS, UNKNOWN64
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.state import State
from gpushare.errors import GpushareError
from gpushare.nvml import library
from gpushare.nvml.api import NoDriverError, NvmlError, Process

Simulate = Callable[..., State]

ERAS = ["418.87.00", "450.66", "470.57.02", "510.39.01", "535.104.05", "580.65.06"]


@pytest.mark.parametrize("driver", ERAS)
def test_process_in_several_lists_counts_once(simulate: Simulate, driver: str) -> None:
    """Compute, graphics and MPS are three lists of NVML; unknown memory is None, and other cards have none of them."""
    state = simulate("mixed", driver=driver)
    uuid = state.cards()[0].uuid
    for pid in (1, 2, 3, 4, 5, *range(20, 5, -1)):
        state.add_process(uuid, pid, 10, "player")
    with state.mapped.writing() as content:
        rows = content.processes
        rows[0].kind, rows[1].kind, rows[2].kind = GRAPHICS, MPS, COMPUTE
        rows[2].memory = UNKNOWN64
        rows[3].pid, rows[3].kind = 1, COMPUTE  # computes and draws
        rows[4].memory = 0

    library.initialise(None)
    others = (Process(pid, 10) for pid in range(6, 21))
    assert library.processes(uuid) == (Process(1, 10), Process(2, 10), Process(3, None), Process(5, 0), *others)
    assert library.processes(state.cards()[1].uuid) == ()


@pytest.mark.usefixtures("clean_pynvml")
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/nowhere/libnvidia-ml.so.1", "cannot load the NVML library /nowhere/.*check --nvml-library"),
        ("libc.so.6", "not NVML"),
    ],
)
def test_a_path_that_is_no_nvml_says_which_flag(path: str, says: str) -> None:
    """A path that is no NVML library is refused, and pynvml keeps no library then."""
    with pytest.raises(NoDriverError, match=says) as caught:
        library.initialise(path)

    assert isinstance(caught.value, GpushareError)
    assert pynvml.nvmlLib is None


def test_a_named_library_is_the_one_that_is_asked(simulate: Simulate) -> None:
    """A named library is asked even if another one was asked before, whose functions must not answer for it."""
    path = library_folder(simulate("t4x2").driver()) / LIBRARY
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache["nvmlDeviceGetCount_v2"] = lambda count: pynvml.NVML_ERROR_UNKNOWN
    library.initialise(str(path))

    assert len(library.survey().cards) == 2


def test_a_garbled_name_is_replaced(simulate: Simulate) -> None:
    """A card with a name that is no UTF-8 is shared under a name with replacement characters."""
    state = simulate("t4x2", driver="550.54")
    with state.mapped.writing() as content:
        content.cards[1].name = b"\xf8\xb3\x91\x02\x7f"
    library.initialise(None)

    assert [card.model for card in library.survey().cards] == ["Tesla T4", "\ufffd\ufffd\ufffd\x02\x7f"]


def test_an_error_whose_text_cannot_be_read_is_reported(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error without a text that can be read is reported by its code, because pynvml asks the library for each text."""
    state = simulate("t4x2", driver="550.54")
    state.set_value(state.cards()[1].uuid, "state", "lost")
    library.initialise(None)
    monkeypatch.setattr(pynvml.NVMLError, "__str__", lambda self: b"\xf8".decode())

    (unreadable,) = library.survey().unreadable
    assert unreadable.reason == "cannot describe card 1: NVML says: an error whose text cannot be read (code 15)"


@pytest.mark.parametrize("count", [-1, 2**31])
def test_an_absurd_count_of_cards_is_an_error(simulate: Simulate, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """An absurd count of cards is an error, and costs no walk over cards that cannot exist."""
    simulate("t4x1")
    library.initialise(None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: count)

    with pytest.raises(NvmlError, match=f"there are {count}"):
        library.survey()


@pytest.mark.parametrize(
    ("function", "is_shared"),
    [
        ("nvmlDeviceGetHandleByIndex", False),
        ("nvmlDeviceGetUUID", False),
        ("nvmlDeviceGetMemoryInfo", False),
        ("nvmlDeviceGetName", True),
        ("nvmlDeviceGetMigMode", True),
        ("nvmlDeviceGetMemoryAffinity", True),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xf8", 0, 1, "invalid start byte"),
        AttributeError("no such field"),
        ctypes.ArgumentError("argument 1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_pynvml_raises_costs_its_own_card_alone(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, function: str, is_shared: bool, error: Exception
) -> None:
    """A call that ends with no NVMLError is no answer; a fact that is nice to have costs nothing."""
    simulate("t4x2", driver="550.54")
    library.initialise(None)
    asked = getattr(pynvml, function)
    second = pynvml.nvmlDeviceGetHandleByIndex(1)

    def odd(first: object, *others: object) -> object:
        is_second = first == 1 or (isinstance(first, type(second)) and _address(first) == _address(second))
        if is_second:
            raise error
        return asked(first, *others)

    monkeypatch.setattr(pynvml, function, odd)
    survey = library.survey()

    assert len(survey.cards) + len(survey.unreadable) == 2
    assert [card.index for card in survey.cards] == ([0, 1] if is_shared else [0])
    assert all(type(error).__name__ in card.reason for card in survey.unreadable)


def _address(handle: Any) -> int:
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)
