"""Promises of gpushare.cli.settings, and of the flags that it reads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import attrgetter

import pytest

from gpushare.cli.flags import seconds_of
from gpushare.cli.plugin_flags import ContainerFlags, LimitFlags, Tolerance, UsageFlags
from gpushare.cli.settings import (
    DevicePluginSettings,
    ExtenderSettings,
    device_plugin_settings,
    extender_settings,
)
from gpushare.errors import UsageError
from gpushare.model.quantity import MemoryUnit

NODE = {"NODE_NAME": "n"}


def plugin(*argv: str) -> DevicePluginSettings:
    """The device plugin's settings on node n."""
    return device_plugin_settings(argv, NODE)


def extender(*argv: str) -> ExtenderSettings:
    """The extender's settings without environment."""
    return extender_settings(argv, {})


def test_the_originals_extender_manifest_is_understood() -> None:
    """Environment of the shipped Deployment; THREADNESS is accepted; no address is given."""
    found = extender_settings([], {"LOG_LEVEL": "debug", "PORT": "12345", "THREADNESS": "4", "KUBECONFIG": "/etc/k"})

    assert (found.port, found.log_level, found.kubeconfig, found.address) == (12345, logging.DEBUG, "/etc/k", "")


def test_a_flag_wins_over_the_environment() -> None:
    """Explicit beats implicit."""
    found = extender_settings(["--port=1", "--kubeconfig", "b", "--log-level=warn"], {"PORT": "2", "KUBECONFIG": "a"})

    assert (found.port, found.kubeconfig, found.log_level) == (1, "b", logging.WARNING)


def test_the_originals_plugin_manifest_is_understood() -> None:
    """Every flag of the original, in both of Go's spellings, and glog's; a bare switch does not swallow the next flag."""
    found = plugin(
        "-logtostderr=2", "--v=5", "-mps", "--memory-unit=MiB", "-health-check", "--mps=false", "--query-kubelet=true",
        "--kubelet-address=0.0.0.0", "--kubelet-port", "10250", "-client-cert=", "--client-key", "k", "--token=t", "-timeout=10",
    )  # fmt: skip

    assert (found.memory_unit, found.node_name) == (MemoryUnit(1), "n")


EVERY_USE = [
    "-usage=true",
    "-usage-interval",
    "2s",
    "--overuse-tolerance=256MiB",
    "--overuse-after=1m30s",
    "--proc-root=/host",
]


@pytest.mark.parametrize(
    ("program", "argv", "name", "expected"),
    [
        # 0 is never. The defaults stand in docs/reference.md, which is compared with the flags.
        (extender, ["--audit-interval=90s"], "audit_interval", 90.0),
        (extender, ["-audit-interval", "0"], "audit_interval", 0.0),
        # No port listens wider than configured.
        (extender, ["-metrics-address", ":9"], "metrics_address", ("127.0.0.1", 9)),
        (plugin, ["--metrics-address=0.0.0.0:9400"], "metrics_address", ("0.0.0.0", 9400)),
        (plugin, ["--metrics-address=localhost:0"], "metrics_address", ("localhost", 0)),
        (plugin, ["--metrics-address=[::1]:80"], "metrics_address", ("::1", 80)),
        (plugin, ["--max-ids=10"], "max_ids", 10),
        (plugin, ["--sys-root=/host/sys"], "sys_root", "/host/sys"),
        # As many as MPS serves by default; in ids mode they are not counted.
        (plugin, [], "slots", 0),
        (plugin, ["--mode=slots"], "slots", 48),
        (plugin, ["--mode", "slots", "--slots=7"], "slots", 7),
        (plugin, ["-repair", "hold"], "repair", "hold"),
        # A container gets its card by UUID, as in the original, and real use is not looked at.
        (plugin, [], "container", ContainerFlags(("envvar",), "uuid", "nvidia.com/gpu", "cdi.k8s.io/")),
        # Every 15 s, a tenth above, for a minute.
        (plugin, ["--usage"], "usage", UsageFlags(True, 15, Tolerance(percent=10), 60)),
        (plugin, EVERY_USE, "usage", UsageFlags(True, 2, Tolerance(bytes=256 * 1024**2), 90, proc_root="/host")),
        (plugin, ["--overuse-tolerance=0"], "usage.tolerance", Tolerance()),
        (plugin, ["--overuse-tolerance=25%"], "usage.tolerance", Tolerance(percent=25)),
        (plugin, ["--overuse-tolerance=1GiB"], "usage.tolerance", Tolerance(bytes=1024**3)),
        # Eviction has the use in it, ten minutes after the report.
        (plugin, ["--evict-overusers"], "usage.eviction_grace", 600),
        (plugin, ["--evict-overusers", "--eviction-grace=90s"], "usage.eviction_grace", 90),
        (plugin, ["--evict-overusers"], "usage.is_needed", True),
        (plugin, [], "limits", LimitFlags("off", Tolerance(), "/host/sys/fs/cgroup")),
        (plugin, [], "limits.is_on", False),
        (plugin, ["--memory-limit=driver", "--memory-limit-slack=5%"], "limits.slack", Tolerance(percent=5)),
        (plugin, ["--memory-limit=driver"], "limits.is_required", False),
        (plugin, ["--memory-limit", "require", "--cgroup-root=/x"], "limits", LimitFlags("require", Tolerance(), "/x")),
        # Comma-separated or repeated, each once, in their order.
        (
            plugin,
            ["--device-list-strategy=cdi-cri, envvar", "--device-list-strategy", "cdi-cri,volume-mounts"],
            "container.list_strategies",
            ("cdi-cri", "envvar", "volume-mounts"),
        ),
        # NVIDIA's word, and ours of before. The last one counts, as of any flag.
        (plugin, ["--device-id-strategy=index"], "container.id_strategy", "index"),
        (plugin, ["--visible-devices=index"], "container.id_strategy", "index"),
        (plugin, ["--visible-devices=uuid", "--device-id-strategy=index"], "container.id_strategy", "index"),
    ],
)
def test_a_flag_has_a_default_and_a_value(
    program: Callable[..., object], argv: list[str], name: str, expected: object
) -> None:
    """A flag without a value is the default, and each spelling of a value is read."""
    assert attrgetter(name)(program(*argv)) == expected


@pytest.mark.parametrize(
    ("program", "argv", "says"),
    [
        (plugin, ["--memory-unit=KiB"], "--memory-unit: 'KiB' is not a memory unit"),
        (plugin, ["--max-ids=x"], "--max-ids: 'x', not a number from 1 to"),
        (plugin, [f"--max-ids={'9' * 5000}"], ", not a number from 1 to"),
        (plugin, ["--max-ids=0"], "--max-ids: '0'"),
        (plugin, ["--log-level=loud"], "'loud', not one of"),
        (plugin, ["--slots=0"], "--slots: '0'"),
        (plugin, ["--cool-down", "soon"], "--cool-down: 'soon', not a time such as"),
        (plugin, ["--survey-interval", "0"], "--survey-interval: '0'; it takes 1s"),
        (plugin, ["--cool-down=-1s"], "--cool-down: '-1s', not a time"),
        (plugin, ["--metrics-address=9400"], "--metrics-address: '9400', not HOST:PORT"),
        (plugin, ["--metrics-address=host:70000"], "port up to 65535"),
        (plugin, ["--metrics-address=::1:80"], "[IPV6]:PORT"),
        (plugin, ["--overuse-after="], "--overuse-after: ''"),
        (plugin, ["--overuse-after=25h"], "it takes 0s to 86400s"),
        (plugin, ["--eviction-grace=0s"], "--eviction-grace: '0s'; it takes 1s"),
        (plugin, ["--overuse-tolerance=10"], "--overuse-tolerance: '10', neither a share such as 10%"),
        (plugin, ["--overuse-tolerance=-1%"], "--overuse-tolerance"),
        (plugin, ["--device-list-strategy=cdi"], "'cdi'; it takes envvar, volume-mounts, cdi-annotations, cdi-cri"),
        (plugin, ["--device-list-strategy=envvar,"], "'envvar,'; it takes"),
        (plugin, ["--cdi-kind=gpu"], "--cdi-kind: 'gpu', not vendor/class"),
        (plugin, ["--cdi-annotation-prefix=cdi"], "--cdi-annotation-prefix: 'cdi'"),
        (plugin, ["--nonsense"], "usage:"),
        (plugin, ["positional"], "usage:"),
        (plugin, ["-mps=maybe"], "usage:"),
        (plugin, ["--visible-devices=both"], "usage:"),
        # A short interval would keep the API server busy.
        (extender, ["--audit-interval=1s"], "--audit-interval: '1s'; it takes"),
        (extender, ["--audit-interval=-5m"], "--audit-interval: "),
        (extender, ["--metrics-address=x"], "--metrics-address: "),
    ],
)
def test_what_makes_no_sense_says_so(
    program: Callable[..., object], argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program ends with code two, as kubectl and every Go program; the error names the flag, the value and what it takes."""
    with pytest.raises(SystemExit) as ended:
        program(*argv)

    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("port", ["x", "-1", "70000", "1.5", ""])
def test_a_port_that_is_none_says_so(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From flag or environment alike."""
    with pytest.raises(SystemExit):
        extender_settings([], {"PORT": port})

    assert f"--port: {port!r}, not a number from 0 to 65535 (the flag, or $PORT)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "text"),
    [(["--node-name="], "NODE_NAME"), (["--slots=7"], "--slots"), (["--mode=ids", "--slots=7"], "--slots")],
)
def test_settings_that_contradict_each_other(argv: list[str], text: str) -> None:
    """A plugin knows its node, and slots that would not be counted are an error."""
    with pytest.raises(UsageError, match=text):
        plugin(*argv)


def test_cards_are_watched_by_default() -> None:
    """The original's default was off: an unhealthy card stayed in use (D09)."""
    plain = plugin().health
    told = device_plugin_settings(
        ["-node-name=n", "--health-check=false", "--cool-down", "2m", "-survey-interval=30s", "--fail-on-init-error"],
        {"DP_DISABLE_HEALTHCHECKS": "48", "DP_ENABLE_HEALTHCHECKS": "all"},
    ).health

    assert (plain.check, plain.cool_down, plain.survey_interval, plain.fail_on_init_error) == (True, 60, 10, False)
    assert (plain.disabled, plain.enabled) == ("", "")
    assert (told.check, told.cool_down, told.survey_interval, told.fail_on_init_error) == (False, 120, 30, True)
    assert (told.disabled, told.enabled) == ("48", "all")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("30", 30), ("0.25", 0.25), ("1m30s", 90), ("30s1m", 90), ("1.5h", 5400), (".5m", 30), ("1.s", 1),
        ("500ms", 0.5), ("100us", 0.0001), ("100µs", 0.0001), ("2h45m30.5s", 9930.5), ("1s1s", 2),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    """Any order of units, fractions of each, and a bare number of seconds as kubectl takes it."""
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", ".", "soon", "-5s", "5 s", "1d", "1m30", "٣s", "1e3", "inf", "9" * 65])
def test_any_other_text_is_no_duration(text: str) -> None:
    """Signs, blanks, other scripts and a number behind units are refused."""
    assert seconds_of(text) is None
