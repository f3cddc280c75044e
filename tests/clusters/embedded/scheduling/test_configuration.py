from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduling.configuration import (
    Configuration,
    ConfigurationError,
    ExtenderConfiguration,
    ManagedResource,
    Profile,
    is_extended_resource,
    validate,
)
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_pod

URL = "http://127.0.0.1:1/gpushare-scheduler"
MANAGED = (ManagedResource(MEMORY),)


def extender(**fields: Any) -> ExtenderConfiguration:
    return ExtenderConfiguration(URL, **fields)


@pytest.mark.parametrize(
    ("pod", "interested"),
    [
        (make_pod(), False),
        (make_pod(limits={"cpu": "1"}), False),
        (make_pod(limits={MEMORY: "2"}), True),
        (make_pod(limits={MEMORY: "0"}), True),
        (make_pod(containers=[{"resources": {"requests": {MEMORY: "1"}}}]), True),
        (make_pod(initContainers=[{"resources": {"limits": {MEMORY: "1"}}}]), True),
        (make_pod(ephemeralContainers=[{"resources": {"limits": {MEMORY: "1"}}}]), False),
        (make_pod(resources={"limits": {MEMORY: "1"}}), False),
    ],
    ids=["none", "other", "limit", "zero", "request", "init", "ephemeral", "pod-level"],
)
def test_interested_in_containers_that_name_a_managed_resource(pod: dict[str, Any], interested: bool) -> None:
    """Requests and limits of ordinary and init containers count, even an amount of 0."""
    assert interested is extender(managed_resources=MANAGED).is_interested(pod)


def test_is_interested_in_everything_where_nothing_is_managed() -> None:
    """An extender without managed resources gets every pod."""
    assert extender().is_interested(make_pod())


def test_ignorable_extenders_come_last() -> None:
    """In the order written otherwise."""
    first, second, third = extender(ignorable=True, weight=1), extender(weight=2), extender(weight=3)

    assert (second, third, first) == Configuration((first, second, third)).extenders_in_order


def test_percentage_of_the_profile_wins() -> None:
    """A profile without a percentage of its own has the one of the configuration."""
    configuration = Configuration(percentage_of_nodes_to_score=30)

    assert configuration.percentage_for(Profile()) == 30
    assert configuration.percentage_for(Profile(percentage_of_nodes_to_score=0)) == 0


def test_with_url_prefix_moves_one_extender() -> None:
    """The extender is chosen by its number; a number that does not exist is an error."""
    moved = Configuration((extender(),)).with_url_prefix("http://127.0.0.1:2/x")

    assert moved.extenders[0].url_prefix == "http://127.0.0.1:2/x"
    with pytest.raises(ConfigurationError, match="no extender 1"):
        moved.with_url_prefix("http://127.0.0.1:2/x", index=1)


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        (Configuration((extender(prioritize_verb="p"),)), r"extenders\[0\].weight"),
        (Configuration((extender(bind_verb="b"), extender(bind_verb="b"))), "only one may have a bindVerb"),
        (Configuration((ExtenderConfiguration(""),)), "urlPrefix"),
        (Configuration((extender(managed_resources=(ManagedResource("gpu-mem"),)),)), "no extended resource"),
        (Configuration((extender(managed_resources=MANAGED), extender(managed_resources=MANAGED))), "managed twice"),
        (Configuration(percentage_of_nodes_to_score=101), "percentageOfNodesToScore"),
        (Configuration(profiles=(Profile(percentage_of_nodes_to_score=-1),)), r"profiles\[0\]"),
        (Configuration(profiles=(Profile("a"), Profile("a"))), "twice"),
        (Configuration(profiles=(Profile(""),)), "schedulerName"),
        (Configuration(profiles=()), "profiles"),
        (Configuration(initial_backoff_seconds=0), "podInitialBackoffSeconds"),
        (Configuration(initial_backoff_seconds=5, max_backoff_seconds=4), "podMaxBackoffSeconds"),
    ],
)
def test_validate_names_the_field(configuration: Configuration, text: str) -> None:
    """Each contradiction in a configuration is refused with the field that has it."""
    with pytest.raises(ConfigurationError, match=text):
        validate(configuration)


@pytest.mark.parametrize("name", ["cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.a.com/x", "a.com/", "A b/c"])
def test_is_extended_resource_refuses(name: str) -> None:
    """Kubernetes' own names, and texts that are no name, are not extended resources."""
    assert not is_extended_resource(name)


def test_is_extended_resource_accepts_ours() -> None:
    """The name of our memory resource is one."""
    assert is_extended_resource(MEMORY)
