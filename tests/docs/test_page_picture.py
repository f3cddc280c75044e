"""The picture of the README, and the script that draws it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from docs.page_picture import HEIGHT, PAGE, WIDTH, draw
from e2e.browser import CHROMIUM, NO_CHROMIUM

MOST_BYTES = 150_000


def size_of(picture: bytes) -> tuple[int, int]:
    """Width and height in the head of a PNG."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_the_picture_is_small_and_as_the_script_draws_it() -> None:
    """The file has the script's size in pixels, and few bytes."""
    picture = PAGE.read_bytes()
    assert size_of(picture) == (WIDTH, HEIGHT)
    assert len(picture) < MOST_BYTES


@pytest.mark.thorough("it starts a cluster and a browser; the picture changes with the page alone")
@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
async def test_the_script_draws_what_the_page_shows(tmp_path: Path) -> None:
    """It ends once the page shows an unhealthy card and a pod that waits."""
    picture = await draw(tmp_path, dict(os.environ))
    assert size_of(picture) == (WIDTH, HEIGHT)
