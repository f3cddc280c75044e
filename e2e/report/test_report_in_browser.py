"""The page of a report in a browser: Debian's chromium, clicked over its DevTools protocol, without a network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from e2e.browser import CHROMIUM, NO_CHROMIUM, Browser, browser
from e2e.report.test_pages import PROMISES, TABLE
from e2e.report.verdict_page import to_html
from e2e.site.report import html_page
from e2e.site.test_site_report import REPORT, case

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
# JavaScript: the texts of the rows and failures that are visible now.
SHOWN = "[...document.querySelectorAll('tbody tr:has(th), article')].filter(one => one.checkVisibility()).map(one => one.innerText)"
# How much wider the page is than the window, and the words that stand on two lines.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BROKEN_WORDS = """(() => {
  const found = [], all = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (all.nextNode())
    for (const word of all.currentNode.data.matchAll(/[A-Za-z]{2,}/g)) {
      const range = document.createRange();
      range.setStart(all.currentNode, word.index);
      range.setEnd(all.currentNode, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter(one => one.width).map(one => Math.round(one.top));
      if (new Set(lines).size > 1) found.push(word[0]);
    }
  return found;
})()"""
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


async def test_a_validation_is_read_at_any_width(tmp_path: Path) -> None:
    """No word of its page is broken, the page is no wider than the window, and the results stand first."""
    names = [f"ip-10-0-0-{number}.eu-central-1.compute.internal" for number in range(4)]
    nodes = tuple(msgspec.structs.replace(REPORT.nodes[0], name=name, runtime="containerd://2.1.4") for name in names)
    cases = tuple(case("test_pods_that_run_together_fit_the_cards", name, "not judged", "no room") for name in names)
    async with opened(html_page.to_html(msgspec.structs.replace(REPORT, nodes=nodes, cases=cases)), tmp_path) as shown:
        assert await shown.evaluate("document.querySelector('h2').innerText") == "Cases"
        for width in (360, 768, 1130, 1400):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            await shown.call("Emulation.setDeviceMetricsOverride", **size)
            assert await shown.evaluate(BROKEN_WORDS) == [], width
            assert await shown.evaluate(OVERFLOW) == 0, width
