"""Promises of clusters.controlplane.real_control_plane, on the real programs."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from clusters.controlplane.binaries import Binaries
from clusters.controlplane.real_control_plane import RealControlPlane
from clusters.processes.scratch import scratch_folder

pytestmark = pytest.mark.thorough("each test starts a control plane of its own")


@asynccontextmanager
async def running(binaries: Binaries, *, controllers: bool = False) -> AsyncIterator[RealControlPlane]:
    with scratch_folder() as folder:
        plane = RealControlPlane(binaries, folder, dict(os.environ))
        try:
            await plane.start(controllers=controllers)
            yield plane
        finally:
            await plane.stop()


async def test_a_token_outlives_a_cluster_that_is_up_for_long(binaries: Binaries) -> None:
    """A token lasts 30 days or more: it is not renewed, so after the usual hour every program would be refused."""
    async with running(binaries, controllers=True) as plane:
        path = await plane.token_kubeconfig(Path(f"{plane.kubeconfig}.token"), "default", "default")
        payload = yaml.safe_load(path.read_text())["users"][0]["user"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))

    assert claims["exp"] - claims["iat"] >= 30 * 86400


async def test_settings_of_another_etcd_do_not_reach_ours(binaries: Binaries) -> None:
    """Our etcd does not get the user's variables for another etcd, which would set its folder, addresses or file of flags."""
    with scratch_folder() as folder:
        set_by_user = {"ETCD_CONFIG_FILE": "/nowhere", "ETCD_LISTEN_METRICS_URLS": "http://0.0.0.0:0"}
        plane = RealControlPlane(binaries, folder, {**os.environ, **set_by_user})
        try:
            await plane.start(controllers=False)
        finally:
            await plane.stop()

        assert "/nowhere" not in plane.log("etcd")
