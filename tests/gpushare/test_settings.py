"""Promises of gpushare.settings, and of the flags and times that they read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import attrgetter

import pytest

from gpushare.errors import UsageError
from gpushare.flags import seconds_of
from gpushare.model.quantity import MemoryUnit
from gpushare.plugin_flags import ContainerFlags, Tolerance, UsageFlags
from gpushare.settings import DevicePluginSettings, ExtenderSettings, device_plugin_settings, extender_settings


def plugin(*argv: str, **variables: str) -> DevicePluginSettings:
    """The device plugin's settings on node n."""
    return device_plugin_settings(argv, {"NODE_NAME": "n", **variables})


def extender(*argv: str, **variables: str) -> ExtenderSettings:
    """The extender's settings."""
    return extender_settings(argv, variables)


def test_the_originals_extender_manifest_is_understood() -> None:
    """Environment of the shipped Deployment; THREADNESS is accepted; no address is given."""
    settings = extender(LOG_LEVEL="debug", PORT="12345", THREADNESS="4", KUBECONFIG="/etc/k")

    assert (settings.port, settings.log_level, settings.kubeconfig, settings.address) == (
        12345,
        logging.DEBUG,
        "/etc/k",
        "",
    )


def test_a_flag_wins_over_the_environment() -> None:
    """Explicit beats implicit."""
    settings = extender("--port=1", "--kubeconfig", "b", "--log-level=warn", PORT="2", KUBECONFIG="a")

    assert (settings.port, settings.kubeconfig, settings.log_level) == (1, "b", logging.WARNING)


def test_the_originals_plugin_manifest_is_understood() -> None:
    """Every flag of the original, in both of Go's spellings, and glog's; a bare switch does not swallow the next flag."""
    settings = plugin(
        "-logtostderr=2", "--v=5", "-mps", "--memory-unit=MiB", "-health-check", "--mps=false", "--query-kubelet=true",
        "--kubelet-address=0.0.0.0", "--kubelet-port", "10250", "-client-cert=", "--client-key", "k", "--token=t", "-timeout=10",
    )  # fmt: skip

    assert (settings.memory_unit, settings.node_name) == (MemoryUnit(1), "n")


@pytest.mark.parametrize(
    ("read", "name", "argv", "expected"),
    [
        # None lets the plugin ask which kubelet it is.
        (plugin, "max_ids", [], None),
        (plugin, "max_ids", ["--max-ids=10"], 10),
        (plugin, "sys_root", [], "/sys"),
        (plugin, "sys_root", ["--sys-root=/host/sys"], "/host/sys"),
        # As many as MPS serves by default; in ids mode they are not counted.
        (plugin, "slots", [], 0),
        (plugin, "slots", ["--mode=slots"], 48),
        (plugin, "slots", ["--mode", "slots", "--slots=7"], 7),
        (plugin, "repair", [], "exchange"),
        (plugin, "repair", ["-repair", "hold"], "hold"),
        (plugin, "memory_unit.mib", ["-memory-unit=GiB"], 1024),
        (plugin, "memory_unit.mib", ["--memory-unit", "256MiB"], 256),
        (plugin, "delete_unadmitted", [], False),
        (plugin, "metrics_address", [], None),
        # No port listens wider than configured.
        (plugin, "metrics_address", ["--metrics-address=:9400"], ("127.0.0.1", 9400)),
        (plugin, "metrics_address", ["--metrics-address=0.0.0.0:9400"], ("0.0.0.0", 9400)),
        (plugin, "metrics_address", ["--metrics-address=localhost:0"], ("localhost", 0)),
        (plugin, "metrics_address", ["--metrics-address=[::1]:80"], ("::1", 80)),
        (plugin, "usage", ["--usage"], UsageFlags(True, 15, Tolerance(percent=10), 60)),
        (
            plugin,
            "usage",
            ["-usage=true", "-usage-interval", "2s", "--overuse-after=1m30s", "--proc-root=/host"],
            UsageFlags(True, 2, Tolerance(percent=10), 90, proc_root="/host"),
        ),
        (plugin, "usage.tolerance", ["--overuse-tolerance=0"], Tolerance()),
        (plugin, "usage.tolerance", ["--overuse-tolerance=25%"], Tolerance(percent=25)),
        (plugin, "usage.tolerance", ["--overuse-tolerance=256MiB"], Tolerance(bytes=256 * 1024**2)),
        (plugin, "usage.tolerance", ["--overuse-tolerance=1GiB"], Tolerance(bytes=1024**3)),
        # Eviction has the use in it.
        (plugin, "usage.is_needed", [], False),
        (plugin, "usage.is_needed", ["--usage"], True),
        (plugin, "usage.is_needed", ["--evict-overusers"], True),
        (plugin, "usage.evict", ["--usage"], False),
        (plugin, "usage.eviction_grace", [], 600),
        (plugin, "usage.eviction_grace", ["--eviction-grace=90s"], 90),
        (plugin, "container", [], ContainerFlags(("envvar",), "uuid", "nvidia.com/gpu", "cdi.k8s.io/")),
        # Comma-separated or repeated, each once, in their order.
        (
            plugin,
            "container.list_strategies",
            ["--device-list-strategy=cdi-cri, envvar", "--device-list-strategy", "cdi-cri,volume-mounts"],
            ("cdi-cri", "envvar", "volume-mounts"),
        ),
        # NVIDIA's word, and ours of before. The last one counts, as of any flag.
        (plugin, "container.id_strategy", ["--device-id-strategy=index"], "index"),
        (plugin, "container.id_strategy", ["--visible-devices=uuid", "--device-id-strategy=index"], "index"),
        (plugin, "container.id_strategy", ["--visible-devices=index"], "index"),
        # The original's default was off: a sick card stayed in use (D9).
        (plugin, "health.check", [], True),
        (plugin, "health.check", ["--health-check=false"], False),
        (plugin, "health.cool_down", [], 60),
        (plugin, "health.cool_down", ["--cool-down", "2m"], 120),
        (plugin, "health.survey_interval", [], 10),
        (plugin, "health.survey_interval", ["-survey-interval=30s"], 30),
        (plugin, "health.fail_on_init_error", [], False),
        (plugin, "health.fail_on_init_error", ["--fail-on-init-error"], True),
        (plugin, "health.disabled", [], ""),
        (extender, "port", [], 39999),
        (extender, "audit_interval", [], 300.0),
        (extender, "audit_interval", ["--audit-interval=90s"], 90.0),
        (extender, "audit_interval", ["-audit-interval", "0"], 0.0),
        (extender, "metrics_address", [], None),
        (extender, "metrics_address", ["-metrics-address", ":9"], ("127.0.0.1", 9)),
    ],
)
def test_a_flag_has_a_default_and_a_value(
    read: Callable[..., object], name: str, argv: list[str], expected: object
) -> None:
    """By default nothing is served, looked at or deleted beyond what the original did, and cards are watched."""
    assert attrgetter(name)(read(*argv)) == expected


def test_nvidias_variables_are_read() -> None:
    """They have their meaning in NVIDIA's device plugin."""
    health = plugin(DP_DISABLE_HEALTHCHECKS="48", DP_ENABLE_HEALTHCHECKS="all").health

    assert (health.disabled, health.enabled) == ("48", "all")


@pytest.mark.parametrize(
    ("read", "argv", "says"),
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
        (plugin, ["--usage-interval=0.5s"], "--usage-interval: '0.5s'; it takes 1s"),
        (plugin, ["--overuse-after="], "--overuse-after: ''"),
        (plugin, ["--overuse-after=25h"], "it takes 0s to 86400s"),
        (plugin, ["--eviction-grace=0s"], "--eviction-grace: '0s'; it takes 1s"),
        (plugin, ["--overuse-tolerance=10"], "--overuse-tolerance: '10', neither a share such as 10%"),
        (plugin, ["--overuse-tolerance=-1%"], "--overuse-tolerance"),
        (plugin, ["--device-list-strategy=cdi"], "'cdi'; it takes envvar, volume-mounts, cdi-annotations, cdi-cri"),
        (plugin, ["--device-list-strategy=envvar,"], "'envvar,'; it takes"),
        (plugin, ["--cdi-kind=gpu"], "--cdi-kind: 'gpu', not vendor/class"),
        (plugin, ["--cdi-annotation-prefix=cdi"], "--cdi-annotation-prefix: 'cdi'"),
        # As in kubectl and every Go program.
        *((plugin, [text], "usage:") for text in ("--nonsense", "-mps=maybe", "--repair=maybe", "positional")),
        *(
            (extender, [f"--port={port}"], f"--port: {port!r}, not a number from 0 to 65535 (the flag, or $PORT)")
            for port in ("x", "-1", "70000", "1.5", "")
        ),
        # An interval that would keep the API server busy is refused, too.
        *((extender, [f"--audit-interval={text}"], "argument --audit-interval: ") for text in ("soon", "1s", "-5m")),
        (extender, ["--metrics-address=x"], "argument --metrics-address: "),
    ],
)
def test_a_flag_that_makes_no_sense_says_so(
    read: Callable[..., object], argv: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flag that makes no sense ends the program with code two and an error that names the flag, the value and what it takes."""
    with pytest.raises(SystemExit) as ended:
        read(*argv)

    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [(["--node-name="], "NODE_NAME"), (["--slots=7"], "--slots"), (["--mode=ids", "--slots=7"], "--slots")],
)
def test_flags_that_do_not_go_together_are_an_error(argv: list[str], says: str) -> None:
    """Without a name there is no node to announce cards on, and slots that would not be counted are not ignored."""
    with pytest.raises(UsageError, match=says):
        plugin(*argv)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        ("0.25", 0.25),
        ("1m30s", 90),
        ("30s1m", 90),
        ("1.5h", 5400),
        (".5m", 30),
        ("1.s", 1),
        ("500ms", 0.5),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("2h45m30.5s", 9930.5),
        ("1s1s", 2),
        *((text, None) for text in ("", "s", ".", "soon", "-5s", "5 s", "1d", "1m30", "٣s", "1e3", "inf", "9" * 65)),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float | None) -> None:
    """Any order of units, fractions of each, and a bare number of seconds as kubectl takes it; any other text is none."""
    found = seconds_of(text)
    assert found == (seconds if seconds is None else pytest.approx(seconds))
