"""Promises of clusters.api.admission_policies for older releases, and of what targets say of policies."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.api.admission_policies import install
from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.deploy.render import BASE
from clusters.provider import ClusterError
from clusters.targets import FOLDER, load_target
from tests.servers import StubApi, serve


async def test_an_api_server_without_the_kind_goes_without() -> None:
    """Releases before 1.36: their manifests name the slot."""
    old = StubApi()
    old.fault = lambda method, path: (404, {"kind": "Status", "message": "404 page not found", "code": 404})
    async with serve(old) as url, Connection(url) as http:
        target = load_target("gpushare-slots")

        assert not await install(ApiClient(http), target.policy_manifests(), target.policy_probe)


def test_the_policies_of_a_target_are_those_of_the_base() -> None:
    """In slots mode, and the policy of slots mode after them."""
    ids, slots = load_target("gpushare"), load_target("gpushare-slots")
    base = {path.name for path in BASE.glob("*-policy.yaml")}

    assert {Path(name).name for name in ids.policies} == base
    assert slots.policies[:-1] == ids.policies
    assert (dict(ids.policy_probe), list(slots.policy_probe)) == ({}, ["asks", "gets"])


def test_missing_policy_is_an_error_that_names_the_target(tmp_path: Path) -> None:
    """The file is at fault, not the program that runs into it."""
    text = (FOLDER / "gpushare-slots.yaml").read_text().replace("gpu-slot-policy.yaml", "none.yaml")
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ClusterError, match="the policies of target gpushare-slots"):
        load_target(str(tmp_path / "t.yaml")).policy_manifests()
