"""Promises of one HTTP client hold for the other: each promise here is tried with both."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from gpushare.kube import config
from gpushare.kube.client import Http
from tests.gpushare.kube import scripted_api
from tests.gpushare.kube.scripted_api import httpx_client, lean_client


@pytest.fixture(params=[httpx_client, lean_client], ids=["httpx", "lean"], autouse=True)
def http(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], Http]:
    """The client of this run."""
    found: Callable[[str, float], Http] = request.param
    monkeypatch.setattr(scripted_api, "http_client", found)
    monkeypatch.setattr(config, "connect", partial(config.connect, sends_much=found is lean_client))
    return found
