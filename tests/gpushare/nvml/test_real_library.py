"""NVIDIA's own libnvidia-ml.so.1 on a machine without a card: it runs if ``LIBNVIDIA_ML`` names one.

The library comes with any driver; Debian has it in non-free as libnvidia-ml1, which is enough unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from fake_nvml.guard import DRIVER_FOLDER
from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from gpushare.nvml.api import NoDriverError
from gpushare.nvml.session import NvmlSession
from tests.gpushare.deviceplugin.test_main import node, run
from tests.servers import StubApi, kubeconfig, serve

VARIABLE = "LIBNVIDIA_ML"
NAMED = os.environ.get(VARIABLE, "")
# The reason that the device plugin reports without a kernel module.
REASON = "the NVIDIA kernel module is not loaded"

pytestmark = [
    pytest.mark.skipif(not NAMED, reason=f"{VARIABLE} names no real libnvidia-ml.so.1: set {VARIABLE}=PATH"),
    pytest.mark.skipif(DRIVER_FOLDER.exists(), reason=f"this machine has a driver ({DRIVER_FOLDER}), so NVML answers"),
]


@pytest.fixture
def session(clean_pynvml: None) -> Iterator[NvmlSession]:
    opened = NvmlSession(str(Path(NAMED).resolve()))
    yield opened
    opened.close()


def test_missing_driver_is_reported_each_time_without_a_leak(session: NvmlSession) -> None:
    """The device plugin asks again every few seconds, for weeks if need be."""
    for attempt in range(200):
        with pytest.raises(NoDriverError, match=REASON):
            session.renew()
        if attempt == 0:
            opened = len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert pynvml._nvmlLib_refcount == 0


def test_cards_are_found_in_the_same_process_afterwards(
    session: NvmlSession, simulate: Callable[..., State], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real library leaves nothing behind that keeps a driver from being found, and a named library is the one asked."""
    with pytest.raises(NoDriverError):
        session.renew()
    state = simulate("t4x2", driver="535.104")
    monkeypatch.setenv("FAKENVML_STATE", str(state.path))
    library = library_folder("535.104", dict(os.environ)) / "libnvidia-ml.so.1"
    later = NvmlSession(str(library))
    try:
        assert [card.uuid for card in later.renew().cards] == [card.uuid for card in state.cards()]
    finally:
        later.close()


async def test_the_device_plugin_waits_and_reports_it_on_the_node(tmp_path: Path) -> None:
    """One line in the log, one event on the Node, and an end on demand; the loader finds the library."""
    (tmp_path / "libnvidia-ml.so.1").symlink_to(Path(NAMED).resolve())
    api = StubApi(nodes=[node("v1.36.3")])
    async with serve(api) as url:
        code, log = await run(
            tmp_path, "gpushare-device-plugin", until_log="no cards to share",
            NODE_NAME="n", KUBECONFIG=kubeconfig(tmp_path, url), LD_LIBRARY_PATH=str(tmp_path),
        )  # fmt: skip

    assert (code, log.count("no cards to share"), REASON in log, "Traceback" in log) == (0, 1, True, False)
