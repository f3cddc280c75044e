"""Which images of former contents go."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clusters.kind.program_images.old_images import is_old

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("image", "goes"),
    [
        ({"RepoTags": ["ours:old"], "Created": "2026-11-20T11:59:00.123456789Z"}, True),
        ({"RepoTags": ["ours:old"], "Created": "2026-11-20T12:01:00.123456789Z"}, False),
        ({"RepoTags": ["ours:new"], "Created": "2026-01-01T00:00:00Z"}, False),
        ({"RepoTags": None, "Created": "2026-01-01T00:00:00Z"}, True),
    ],
    ids=["a day old", "younger", "in use by this checkout", "without a name"],
)
def test_an_image_goes_after_a_day_unless_it_is_this_checkout_s(image: dict[str, object], goes: bool) -> None:
    """Another checkout may still start what it has just built."""
    assert is_old(image, {"ours:new"}, NOW) is goes
