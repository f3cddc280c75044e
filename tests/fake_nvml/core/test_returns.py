"""Return codes."""

from __future__ import annotations

import pytest

from fake_nvml.core.returns import CODES, ReturnCodeError, code_name, text_of


def test_every_code_has_its_name() -> None:
    """A code without one is its number."""
    assert [code_name(code) for code in CODES.values()] == list(CODES)
    assert code_name(12345) == "12345"
    assert (ReturnCodeError(15).code, str(ReturnCodeError(15))) == (15, "GPU_IS_LOST")


@pytest.mark.parametrize(
    ("code", "branch", "text"),
    [
        (0, 390, "Success"),
        (23, 418, "Unknown Error"),
        (23, 450, "Insufficient Resources"),
        (30, 580, "Unknown Error"),
        (12345, 580, "Unknown Error"),
    ],
)
def test_a_text_is_as_old_as_its_library(code: int, branch: int, text: str) -> None:
    """A code that is not known has a text of its own."""
    assert text_of(code, branch) == text
