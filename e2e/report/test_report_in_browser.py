"""The page of a report in a browser: Debian's chromium, clicked over its DevTools protocol, without a network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.browser import CHROMIUM, NO_CHROMIUM, Browser, browser
from e2e.report.test_pages import PROMISES, TABLE
from e2e.report.verdict_page import to_html

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
# JavaScript: the texts of the rows and failures that are visible now.
SHOWN = "[...document.querySelectorAll('tbody tr:has(th), article')].filter(one => one.checkVisibility()).map(one => one.innerText)"
COLOURS = "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"


@contextlib.asynccontextmanager
async def opened(page: str, folder: Path, *words: str) -> AsyncIterator[Browser]:
    """A browser that shows this page."""
    file = folder / "page.html"
    file.write_text(page)
    async with browser(file.as_uri(), folder, *words) as shown:
        yield shown


async def test_the_finder_shows_what_is_looked_for(tmp_path: Path) -> None:
    """Typed words hide all rows and failures without them, and a click on *bad* hides what has passed."""
    async with opened(to_html(TABLE, PROMISES), tmp_path) as shown:
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

        await shown.click("summary")
        assert await shown.evaluate("document.querySelector('details').open") is False


async def test_the_page_follows_the_colours_of_the_reader(tmp_path: Path) -> None:
    """It is dark if the reader wants it, otherwise light."""
    async with opened(to_html(TABLE, PROMISES), tmp_path) as shown:
        seen = {}
        for scheme in ("light", "dark"):
            await shown.colours(scheme)
            seen[scheme] = await shown.evaluate(COLOURS)

    assert seen == {
        "light": ["rgb(255, 255, 255)", "rgb(26, 26, 26)"],
        "dark": ["rgb(22, 24, 28)", "rgb(232, 232, 232)"],
    }


async def test_the_page_is_whole_without_its_script(tmp_path: Path) -> None:
    """The finder is hidden then, and all rows are there."""
    async with opened(to_html(TABLE, PROMISES), tmp_path, "--blink-settings=scriptEnabled=false") as shown:
        assert await shown.evaluate("document.querySelector('.finder').checkVisibility()") is False
        assert len(await shown.evaluate(SHOWN)) == 5
