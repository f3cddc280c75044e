"""Promises of clusters.api.admission_policies for older releases, and of what targets say of policies."""

from __future__ import annotations

from pathlib import Path

from clusters.deploy.render import BASE
from clusters.targets import load_target


def test_the_policies_of_a_target_are_those_of_the_base() -> None:
    """In slots mode, and the policy of slots mode after them."""
    ids, slots = load_target("gpushare"), load_target("gpushare-slots")
    base = {path.name for path in BASE.glob("*-policy.yaml")}

    assert {Path(name).name for name in ids.policies} == base
    assert slots.policies[:-1] == ids.policies
    assert (dict(ids.policy_probe), list(slots.policy_probe)) == ({}, ["asks", "gets"])
