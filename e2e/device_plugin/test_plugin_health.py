"""The lists that a kubelet gets when a card becomes unhealthy, and when it recovers."""

from __future__ import annotations

import pytest

from clusters.api.waiting import until
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.recording_kubelet import Registration


async def lists(registration: Registration, count: int) -> None:
    """Wait for this number of lists."""
    await until(lambda: len(registration.lists), lambda found: found >= count, f"{count} lists")


async def has_unhealthy(registration: Registration, count: int) -> None:
    """Wait until this number of ids is unhealthy."""
    await until(
        lambda: len(registration.ids(healthy=False)),
        lambda found: found == count,
        f"{count} ids are unhealthy in the list",
    )


@pytest.mark.promise("DP-005")
@pytest.mark.promise("D08")
async def test_an_unhealthy_card_is_one_list(stage: PluginUnderTest) -> None:
    """Defect D08: one message with all ids, those of the card all together; not one for each id."""
    await stage.open("t4x2", driver="535.104")
    registration = await stage.plug(health="true")
    before = registration.ids()
    await stage.cards.fake_nvml("xid", "1", "79")
    await lists(registration, 2)

    unhealthy = registration.ids(healthy=False)
    assert sorted(registration.ids()) == sorted(before)
    assert len(unhealthy) == len(before) // 2
    # Another card becomes unhealthy: one more list. Between the two nothing was sent.
    await stage.cards.fake_nvml("xid", "0", "48")
    await lists(registration, 3)
    assert not registration.ids(healthy=True)
    assert len(registration.lists) == 3
    sizes = [message.ByteSize() for message in registration.lists]
    assert max(sizes) - min(sizes) <= 2 * len(before)


@pytest.mark.parametrize(
    "options",
    [{"survey_interval": "10m"}, {"sys_root": "/nowhere", "survey_interval": "1s"}],
    ids=["the kernel tells", "the kernel does not tell"],
)
async def test_a_card_that_comes_is_offered_and_one_that_goes_is_not(
    stage: PluginUnderTest, options: dict[str, str]
) -> None:
    """The plugin offers a new card, and does not offer a removed one any more, without a restart.

    The kernel reports the change immediately, or else the plugin counts the cards from time to time.
    """
    await stage.open("t4x1", driver="535.104")
    registration = await stage.plug(**options)
    before = registration.ids()
    await stage.cards.fake_nvml("add", "--model", "a10")
    await lists(registration, 2)
    assert set(before) < set(registration.ids(healthy=True))
    await stage.cards.fake_nvml("remove", "1")
    await lists(registration, 3)

    assert sorted(registration.ids(healthy=True)) == sorted(before)
