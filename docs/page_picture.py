"""Draws docs/page.png: the extender's page beside the living cluster of ``up --demo``; needs chromium."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clusters.api.waiting import eventually, meanwhile
from clusters.demo import LIVING_NODES, WAITING_POD, live, settle
from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target
from e2e.browser import NO_CHROMIUM, browser

PAGE: Final = Path(__file__).with_name("page.png")
# In pixels: the upper half of the page.
WIDTH: Final = 1000
HEIGHT: Final = 760
# The words on the page that the picture must show.
_SHOWN: Final = (WAITING_POD, "✕ unhealthy")


async def draw(folder: Path, environment: Mapping[str, str]) -> bytes:
    """The picture; the browser keeps its profile in that folder. Raises ClusterError and NotReachedError."""
    cluster = make_cluster("embedded", load_nodes(LIVING_NODES), load_target("gpushare"), Choices(environment))
    await cluster.start()
    try:
        await settle(cluster)
        window = f"--window-size={WIDTH},{2 * HEIGHT}"
        part = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
        async with (
            meanwhile(live(cluster)),
            browser(f"{cluster.extender_url()}/ui", folder, window, "--hide-scrollbars") as shown,
        ):
            await shown.colours("light")
            await eventually(
                lambda: shown.evaluate("document.querySelector('main').innerText"),
                lambda text: all(one in text for one in _SHOWN),
                f"the page shows {' and '.join(_SHOWN)}",
            )
            picture = await shown.call("Page.captureScreenshot", format="png", clip=part)
        return base64.b64decode(picture["data"])
    finally:
        await cluster.stop()


def main() -> int:
    """Write it; exit code 1 without chromium."""
    environment = dict(os.environ)  # noqa: TID251  # a main
    try:
        with tempfile.TemporaryDirectory() as folder:
            PAGE.write_bytes(asyncio.run(draw(Path(folder), environment)))
    except FileNotFoundError:
        sys.stderr.write(f"{NO_CHROMIUM}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
