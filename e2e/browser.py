"""A page in Debian's chromium, driven over its DevTools protocol, for the tests of our pages."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from clusters.api.waiting import eventually, until

CHROMIUM = shutil.which("chromium")
NO_CHROMIUM = "chromium is not on PATH (Debian's package of that name)"
# A limit in seconds that only a hang reaches.
_SECONDS = 120.0


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
        """The value of an expression in the page; of a promise the value that it comes to."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def visit(self, address: str) -> None:
        """Go to another address, and wait until its page is whole."""
        await self.evaluate("document.documentElement.id = 'former'")
        await self.call("Page.navigate", url=address)
        await self.is_whole()

    async def is_whole(self) -> None:
        """Wait until there is a page: a tab has an empty document first, and the former one until the next comes."""
        script = (
            "document.readyState === 'complete' && document.querySelector('main') !== null "
            "&& document.documentElement.id !== 'former'"
        )
        await eventually(lambda: self.evaluate(script), bool, "the page is whole")

    async def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        await self.evaluate(f"document.querySelector('{selector}').scrollIntoView({{block: 'center'}})")
        box = await self.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def colours(self, scheme: str) -> None:
        """Ask for a dark page, or for a light one."""
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


@contextlib.asynccontextmanager
async def browser(address: str, folder: Path, *words: str) -> AsyncIterator[Browser]:
    """A tab that shows this address; no other host but this one can be reached."""
    argv = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    argv += [f"--user-data-dir={folder / 'profile'}", "--proxy-server=127.0.0.1:9", *words, address]
    silent = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdout=silent, stderr=silent)
    try:
        async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as http:
            ports = folder / "profile" / "DevToolsActivePort"
            written = await until(lambda: ports.read_text() if ports.exists() else "", bool, "the browser listens")

            async def tabs() -> list[dict[str, str]]:
                async with http.get(f"http://127.0.0.1:{written.split()[0]}/json/list") as answer:
                    return [tab for tab in await answer.json() if tab["url"] == address]

            (tab, *_) = await eventually(tabs, bool, "the page is opened")
            async with http.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                shown = Browser(socket)
                await shown.is_whole()
                yield shown
    finally:
        process.terminate()
        await process.wait()
