from __future__ import annotations

from pathlib import Path

import pytest

from clusters.embedded.scheduling.configuration import (
    Configuration,
    ConfigurationError,
    ExtenderConfiguration,
    ManagedResource,
    Profile,
    TLSConfiguration,
)
from clusters.embedded.scheduling.configuration_file import load, parse

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SHIPPED = Path(__file__).parents[4] / "clusters/deploy/base/scheduler-config.yaml"


def test_parse_of_the_least() -> None:
    """kube-scheduler's defaults."""
    assert Configuration((), (Profile("default-scheduler", None),), 0, 1, 10) == parse(HEAD)


def test_shipped_file_is_valid_and_binds_through_the_extender() -> None:
    """The file in `deploy` is read as the extender with all four verbs."""
    extender = ExtenderConfiguration(
        "http://127.0.0.1:12345/gpushare-scheduler",
        filter_verb="filter",
        prioritize_verb="prioritize",
        weight=1,
        preempt_verb="preempt",
        bind_verb="bind",
        timeout_seconds=10,
        node_cache_capable=True,
        managed_resources=(ManagedResource("aliyun.com/gpu-mem", ignored_by_scheduler=False),),
        ignorable=False,
    )

    assert Configuration((extender,)) == load(SHIPPED)


def test_parse_of_everything() -> None:
    """Every field that is imitated is read, and the others are named as not imitated."""
    configuration = parse(
        HEAD
        + """
percentageOfNodesToScore: 40
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
parallelism: 4
profiles:
- schedulerName: cards
  percentageOfNodesToScore: 100
  plugins: {multiPoint: {enabled: [{name: X}]}}
extenders:
- urlPrefix: https://127.0.0.1:1/x/
  filterVerb: f
  preemptVerb: p
  prioritizeVerb: s
  weight: 3
  bindVerb: b
  enableHTTPS: true
  httpTimeout: 1m1s
  nodeCacheCapable: true
  managedResources: [{name: aliyun.com/gpu-mem, ignoredByScheduler: true}]
  ignorable: true
  tlsConfig: {serverName: x, caData: Y2E=, certFile: /c, keyFile: /k}
"""
    )

    expected = ExtenderConfiguration(
        url_prefix="https://127.0.0.1:1/x/",
        filter_verb="f",
        preempt_verb="p",
        prioritize_verb="s",
        weight=3,
        bind_verb="b",
        enable_https=True,
        tls=TLSConfiguration(server_name="x", ca_data=b"ca", cert_file="/c", key_file="/k"),
        timeout_seconds=61,
        node_cache_capable=True,
        managed_resources=(ManagedResource("aliyun.com/gpu-mem", ignored_by_scheduler=True),),
        ignorable=True,
    )
    assert Configuration((expected,), (Profile("cards", 100),), 40, 2, 20, ("profiles[0].plugins",)) == configuration
    assert {"aliyun.com/gpu-mem"} == configuration.ignored_resources


def test_parse_without_timeout_means_five_seconds() -> None:
    """No timeout, zero and null are the default of kube-scheduler."""
    for text in ("", "  httpTimeout: 0s\n", "  httpTimeout: null\n"):
        configuration = parse(HEAD + "extenders:\n- urlPrefix: http://127.0.0.1:1\n" + text)
        assert configuration.extenders[0].timeout_seconds == 5


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("extenders:\n- urlPrefix: http://a\n  enableHttps: false\n", r"extenders\[0\]: unknown field 'enableHttps'"),
        ("extenders:\n- urlprefix: http://a\n", "unknown field 'urlprefix'"),
        ("extenders:\n- urlPrefix: http://a\n  managedResources: [{Name: a/b}]\n", "unknown field 'Name'"),
        ("Extenders: []\n", "unknown field 'Extenders'"),
        ("extenders:\n- urlPrefix: http://a\n  weight: '1'\n", "weight"),
        ("extenders:\n- urlPrefix: http://a\n  weight: true\n", "weight"),
        ("extenders:\n- urlPrefix: http://a\n  ignorable: 'no'\n", "ignorable"),
        ("extenders:\n- urlPrefix: http://a\n  httpTimeout: 30\n", "httpTimeout"),
        ("extenders:\n- urlPrefix: http://a\n  httpTimeout: '30'\n", "needs its unit"),
        ("extenders:\n- urlPrefix: http://a\n  httpTimeout: -1s\n", "negative"),
        ("extenders:\n- urlPrefix: http://a\n  tlsConfig: {caData: '%'}\n", "base64"),
        ("extenders:\n- urlPrefix: http://a\n  urlPrefix: http://b\n", "set twice"),
        ("extenders: [x]\n", r"extenders\[0\]: a mapping"),
        ("extenders: {}\n", "extenders"),
        ("a: [\n", "not YAML"),
    ],
)
def test_parse_is_as_strict_as_kube_scheduler(text: str, error: str) -> None:
    """Unknown fields, wrong types and fields that are set twice are refused."""
    with pytest.raises(ConfigurationError, match=error):
        parse(HEAD + text)


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3", "v1alpha1"])
def test_parse_refuses_versions_that_are_no_longer_served(version: str) -> None:
    """Only v1 of the configuration is read."""
    with pytest.raises(ConfigurationError, match="is not served"):
        parse(HEAD.replace("/v1", f"/{version}"))


def test_load_names_the_file(tmp_path: Path) -> None:
    """A file that is missing or wrong is named in the error."""
    path = tmp_path / "scheduler.yaml"
    with pytest.raises(ConfigurationError, match="scheduler.yaml"):
        load(path)
    path.write_text(HEAD + "typo: 1\n")
    with pytest.raises(ConfigurationError, match=r"scheduler.yaml: .*typo"):
        load(path)
