"""The shared fixtures of all unit tests.

Hypothesis runs a fixed set of examples, so that a run depends on nothing but the code. And Ctrl-C works: a shell starts what it
runs in the background with that signal ignored, and programs that a test interrupts would inherit it.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pynvml
import pytest
from hypothesis import Phase, settings

settings.register_profile("ci", derandomize=True, deadline=None)
# A mutant need not be reduced to its smallest counterexample, and most fall to the first inputs (make mutants).
settings.register_profile(
    "mutants", settings.get_profile("ci"), max_examples=20, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("ci")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def clean_pynvml() -> Iterator[None]:
    """The process-global library of pynvml, as it was before."""
    before = pynvml.nvmlLib
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            for _ in range(pynvml._nvmlLib_refcount):
                pynvml.nvmlShutdown()
        pynvml.nvmlLib = before
        pynvml._nvmlLib_refcount = 0
        pynvml._nvmlGetFunctionPointer_cache.clear()
