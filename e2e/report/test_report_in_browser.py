"""The page of a report in a browser: Debian's chromium, clicked over its DevTools protocol, without a network."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clusters.api.waiting import eventually, until
from e2e.report.test_pages import PROMISES, TABLE
from e2e.report.verdict_page import to_html

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on PATH (Debian's package of that name)")
# A limit in seconds that only a hang reaches.
_SECONDS = 120.0
# JavaScript: the texts of the rows and failures that are visible now.
SHOWN = "[...document.querySelectorAll('tbody tr:has(th), article')].filter(one => one.checkVisibility()).map(one => one.innerText)"
COLOURS = "(({backgroundColor, color}) => [backgroundColor, color])(getComputedStyle(document.body))"


class Browser:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """Ask, and skip events until the answer comes."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while (answer := await self._socket.receive_json()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    async def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        await self.evaluate(f"document.querySelector('{selector}').scrollIntoView({{block: 'center'}})")
        box = await self.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@contextlib.asynccontextmanager
async def opened(page: str, folder: Path, *words: str) -> AsyncIterator[Browser]:
    """A browser that shows this page."""
    file = folder / "page.html"
    file.write_text(page)
    argv = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    argv += [f"--user-data-dir={folder / 'profile'}", "--proxy-server=127.0.0.1:9", *words, file.as_uri()]
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdout=silent, stderr=silent)
    try:
        async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as http:
            ports = folder / "profile" / "DevToolsActivePort"
            written = await until(lambda: ports.read_text() if ports.exists() else "", bool, "the browser listens")

            async def tabs() -> list[dict[str, str]]:
                async with http.get(f"http://127.0.0.1:{written.split()[0]}/json/list") as answer:
                    return [tab for tab in await answer.json() if tab["url"] == file.as_uri()]

            (tab, *_) = await eventually(tabs, bool, "the page is opened")
            async with http.ws_connect(tab["webSocketDebuggerUrl"]) as socket:
                browser = Browser(socket)
                # The tab has an empty document first.
                is_whole = "document.readyState === 'complete' && document.querySelector('main') !== null"
                await eventually(lambda: browser.evaluate(is_whole), bool, "the page is whole")
                yield browser
    finally:
        process.terminate()
        await process.wait()


async def test_the_finder_shows_what_is_looked_for(tmp_path: Path) -> None:
    """Typed words hide all rows and failures without them, and a click on *bad* hides what has passed."""
    async with opened(to_html(TABLE, PROMISES), tmp_path) as browser:
        # Two failures and three promises; the files with cases are closed.
        assert len(await browser.evaluate(SHOWN)) == 5
        await browser.click("#words")
        await browser.call("Input.insertText", text="TEST_THREE")
        (found,) = await browser.evaluate(SHOWN)
        assert found.startswith("test_three")

        await browser.evaluate("words.select()")
        await browser.call("Input.insertText", text=" ")
        await browser.click("#bad")
        shown = await browser.evaluate(SHOWN)
        assert [text for text in shown if text.startswith(("test_one", "test_three"))] == []
        assert len([text for text in shown if text.startswith(("test_two", "test_four", "DP-00", "D01"))]) == 5

        await browser.click("summary")
        assert await browser.evaluate("document.querySelector('details').open") is False


async def test_the_page_follows_the_colours_of_the_reader(tmp_path: Path) -> None:
    """It is dark if the reader wants it, otherwise light."""
    async with opened(to_html(TABLE, PROMISES), tmp_path) as browser:
        seen = {}
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            await browser.call("Emulation.setEmulatedMedia", features=[feature])
            seen[scheme] = await browser.evaluate(COLOURS)

    assert seen == {
        "light": ["rgb(255, 255, 255)", "rgb(26, 26, 26)"],
        "dark": ["rgb(22, 24, 28)", "rgb(232, 232, 232)"],
    }


async def test_the_page_is_whole_without_its_script(tmp_path: Path) -> None:
    """The finder is hidden then, and all rows are there."""
    async with opened(to_html(TABLE, PROMISES), tmp_path, "--blink-settings=scriptEnabled=false") as browser:
        assert await browser.evaluate("document.querySelector('.finder').checkVisibility()") is False
        assert len(await browser.evaluate(SHOWN)) == 5
