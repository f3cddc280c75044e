"""The page of a report in a browser: Debian's chromium, clicked over its DevTools protocol, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.browser import CHROMIUM, NO_CHROMIUM, browser
from e2e.report.test_report import PROMISES, TABLE, VALIDATION
from e2e.report.verdict_page import to_html

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
# JavaScript: the texts of the rows and failures that are visible now.
SHOWN = "[...document.querySelectorAll('tbody tr:has(th), article')].filter(one => one.checkVisibility()).map(one => one.innerText)"
# How much wider the page is than the window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def test_the_finder_shows_what_is_looked_for(tmp_path: Path) -> None:
    """Typed words hide all rows and failures without them, and a click on *bad* hides what has passed."""
    file = tmp_path / "page.html"
    file.write_text(to_html(TABLE, PROMISES))
    async with browser(file.as_uri(), tmp_path) as shown:
        # Two failures and three promises; the files with cases are closed.
        assert len(await shown.evaluate(SHOWN)) == 5
        await shown.click("#words")
        await shown.call("Input.insertText", text="TEST_THREE")
        (found,) = await shown.evaluate(SHOWN)
        assert found.startswith("test_three")

        await shown.evaluate("words.select()")
        await shown.call("Input.insertText", text=" ")
        await shown.click("#bad")
        texts = await shown.evaluate(SHOWN)
        assert [text for text in texts if text.startswith(("test_one", "test_three"))] == []
        assert len([text for text in texts if text.startswith(("test_two", "test_four", "DP-00", "D01"))]) == 5


async def test_a_validation_is_read_on_a_phone(tmp_path: Path) -> None:
    """Its page is no wider than a narrow window, and has all rows."""
    file = tmp_path / "page.html"
    file.write_text(to_html(VALIDATION, []))
    async with browser(file.as_uri(), tmp_path) as shown:
        size = {"width": 360, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await shown.call("Emulation.setDeviceMetricsOverride", **size)

        assert await shown.evaluate(OVERFLOW) == 0
        assert len(await shown.evaluate(SHOWN)) == 3
