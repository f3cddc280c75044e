"""The embedded scheduler's reading of a KubeSchedulerConfiguration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.embedded.scheduling.configuration import (
    Configuration,
    ConfigurationError,
    ExtenderConfiguration,
    ManagedResource,
    Profile,
    TLSConfiguration,
    load,
    parse,
    seconds_of,
)
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SHIPPED = Path(__file__).parents[4] / "clusters/deploy/base/scheduler-config.yaml"
URL = "http://127.0.0.1:1/gpushare-scheduler"
MANAGED = (ManagedResource(name=MEMORY),)


def extender(**fields: Any) -> ExtenderConfiguration:
    return ExtenderConfiguration(url_prefix=URL, **fields)


@pytest.mark.parametrize(
    ("pod", "interested"),
    [
        (make_pod(), False),
        (make_pod(limits={"cpu": "1"}), False),
        (make_pod(limits={MEMORY: "0"}), True),
        (make_pod(containers=[{"resources": {"requests": {MEMORY: "1"}}}]), True),
        (make_pod(initContainers=[{"resources": {"limits": {MEMORY: "1"}}}]), True),
        (make_pod(ephemeralContainers=[{"resources": {"limits": {MEMORY: "1"}}}]), False),
    ],
    ids=["none", "other", "zero", "request", "init", "ephemeral"],
)
def test_interested_in_containers_that_name_a_managed_resource(pod: dict[str, Any], interested: bool) -> None:
    """Requests and limits of all containers count, even an amount of 0; an extender that manages nothing gets every pod."""
    assert interested is extender(managed_resources=MANAGED).is_interested(pod)
    assert extender().is_interested(pod)


def test_ignorable_extenders_come_last() -> None:
    """In the order written otherwise."""
    first, second, third = extender(ignorable=True, weight=1), extender(weight=2), extender(weight=3)

    assert (second, third, first) == Configuration(extenders=(first, second, third)).extenders_in_order


def test_percentage_of_the_profile_wins() -> None:
    """A profile without a percentage of its own has the one of the configuration."""
    configuration = Configuration(percentage_of_nodes_to_score=30)

    assert configuration.percentage_for(Profile()) == 30
    assert configuration.percentage_for(Profile(percentage_of_nodes_to_score=0)) == 0


def test_parse_of_the_least() -> None:
    """A configuration with only a head has kube-scheduler's defaults."""
    assert parse(HEAD) == Configuration()
    assert parse(HEAD + "extenders:\n- urlPrefix: http://a\n  httpTimeout: null\n").extenders[0].timeout_seconds == 5


def test_shipped_file_is_valid_and_binds_through_the_extender() -> None:
    """The file in `deploy` is read as the extender with all four verbs."""
    expected = ExtenderConfiguration(
        url_prefix="http://127.0.0.1:12345/gpushare-scheduler",
        filter_verb="filter",
        prioritize_verb="prioritize",
        weight=1,
        preempt_verb="preempt",
        bind_verb="bind",
        http_timeout="10s",
        node_cache_capable=True,
        managed_resources=MANAGED,
    )

    assert load(SHIPPED).extenders == (expected,)
    assert expected.timeout_seconds == 10


def test_parse_of_everything() -> None:
    """Every field that is imitated is read."""
    configuration = parse(
        HEAD
        + """
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
profiles:
- schedulerName: cards
  percentageOfNodesToScore: 100
extenders:
- urlPrefix: https://127.0.0.1:1/x/
  enableHTTPS: true
  httpTimeout: 1m1s
  managedResources: [{name: aliyun.com/gpu-mem, ignoredByScheduler: true}]
  ignorable: true
  tlsConfig: {serverName: x, caData: Y2E=, certFile: /c, keyFile: /k}
"""
    )

    (profile,), (only,) = configuration.profiles, configuration.extenders
    assert (profile.scheduler_name, configuration.percentage_for(profile)) == ("cards", 100)
    assert (configuration.initial_backoff_seconds, configuration.max_backoff_seconds) == (2, 20)
    assert (only.enable_https, only.ignorable, only.timeout_seconds) == (True, True, 61)
    assert only.tls == TLSConfiguration(server_name="x", ca_data=b"ca", cert_file="/c", key_file="/k")
    assert configuration.ignored_resources == {MEMORY}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("extenders:\n- urlPrefix: http://a\n  enableHttps: false\n", "unknown field `enableHttps`"),
        ("extenders:\n- urlPrefix: http://a\n  managedResources: [{Name: a/b}]\n", "unknown field `Name`"),
        ("Extenders: []\n", "unknown field `Extenders`"),
        ("parallelism: 4\n", "unknown field `parallelism`"),
        ("extenders:\n- urlPrefix: http://a\n  weight: true\n", r"extenders\[0\].weight"),
        ("extenders:\n- urlPrefix: http://a\n  ignorable: 'no'\n", "ignorable"),
        ("extenders:\n- urlPrefix: http://a\n  httpTimeout: '30'\n", "needs its unit"),
        ("extenders:\n- urlPrefix: http://a\n  httpTimeout: -1s\n", "no duration"),
        ("extenders:\n- urlPrefix: http://a\n  tlsConfig: {caData: '%'}\n", "base64"),
        ("extenders:\n- urlPrefix: http://a\n  prioritizeVerb: p\n", r"extenders\[0\].weight"),
        ("extenders:\n- {urlPrefix: 'http://a', bindVerb: b}\n- {urlPrefix: 'http://b', bindVerb: b}\n", "only one"),
        ("extenders:\n- urlPrefix: ''\n", "urlPrefix"),
        ("extenders:\n- urlPrefix: http://a\n  managedResources: [{name: gpu-mem}]\n", "no extended resource"),
        ("extenders:\n- urlPrefix: http://a\n  managedResources: [{name: a.b/c}, {name: a.b/c}]\n", "managed twice"),
        ("extenders: [x]\n", r"extenders\[0\]"),
        ("percentageOfNodesToScore: 101\n", "percentageOfNodesToScore"),
        ("profiles:\n- percentageOfNodesToScore: -1\n", r"profiles\[0\]"),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]\n", "twice"),
        ("profiles: [{schedulerName: ''}]\n", "schedulerName"),
        ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds"),
        ("podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4\n", "podMaxBackoffSeconds"),
        ("a: [\n", "not YAML"),
    ],
)
def test_parse_is_as_strict_as_kube_scheduler(text: str, error: str) -> None:
    """Unknown fields, wrong types and contradictions are refused with the field that has them."""
    with pytest.raises(ConfigurationError, match=error):
        parse(HEAD + text)


def test_parse_refuses_versions_that_are_no_longer_served() -> None:
    """A configuration of a version other than v1 is refused."""
    with pytest.raises(ConfigurationError, match="is not served"):
        parse(HEAD.replace("/v1", "/v1beta3"))


def test_load_names_the_file(tmp_path: Path) -> None:
    """A file that is missing or wrong is named in the error."""
    path = tmp_path / "scheduler.yaml"
    with pytest.raises(ConfigurationError, match="scheduler.yaml"):
        load(path)
    path.write_text(HEAD + "typo: 1\n")
    with pytest.raises(ConfigurationError, match=r"scheduler.yaml: .*typo"):
        load(path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("0", 0), ("10us", 1e-5)]
)
def test_durations_of_go_are_read(text: str, seconds: float) -> None:
    """Every unit of Go's durations is read."""
    assert seconds == pytest.approx(seconds_of(text))


@pytest.mark.parametrize("text", ["", "30", "s", "30 s", "1d", "30s ", "-", "1m 30s"])
def test_other_durations_are_refused(text: str) -> None:
    """Above all a number without its unit."""
    with pytest.raises(ValueError, match="no duration"):
        seconds_of(text)
