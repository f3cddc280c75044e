"""For all tests: less work for Python's garbage collector, which took a tenth of a worker's processor time."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """What the collection made, thousands of tests and their modules, stays to the end: it need not be walked again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
