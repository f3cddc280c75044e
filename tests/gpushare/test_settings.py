"""Promises of gpushare.settings."""

from __future__ import annotations

import logging

import pytest

from gpushare.errors import UsageError
from gpushare.model.quantity import MemoryUnit
from gpushare.settings import DevicePluginSettings, device_plugin_settings, extender_settings

NODE = {"NODE_NAME": "n"}


def test_the_originals_extender_manifest_is_understood() -> None:
    """Environment of the shipped Deployment; THREADNESS is accepted; no address is given."""
    settings = extender_settings([], {"LOG_LEVEL": "debug", "PORT": "12345", "THREADNESS": "4", "KUBECONFIG": "/etc/k"})

    assert (settings.port, settings.log_level, settings.kubeconfig, settings.address) == (
        12345,
        logging.DEBUG,
        "/etc/k",
        "",
    )


def test_a_flag_wins_over_the_environment() -> None:
    """Explicit beats implicit."""
    settings = extender_settings(
        ["--port=1", "--kubeconfig", "b", "--log-level=warn"], {"PORT": "2", "KUBECONFIG": "a"}
    )

    assert (settings.port, settings.kubeconfig, settings.log_level) == (1, "b", logging.WARNING)


def plugin(*argv: str) -> DevicePluginSettings:
    """The device plugin's settings on node n."""
    return device_plugin_settings(argv, NODE)


def test_the_originals_plugin_manifest_is_understood() -> None:
    """Every flag of the original, in both of Go's spellings, and glog's."""
    settings = plugin(
        "-logtostderr=2", "--v=5", "--memory-unit=MiB", "-health-check", "--mps=false", "--query-kubelet=true",
        "--kubelet-address=0.0.0.0", "--kubelet-port", "10250", "-client-cert=", "--client-key", "k", "--token=t", "-timeout=10",
    )  # fmt: skip

    assert (settings.memory_unit, settings.node_name) == (MemoryUnit(1), "n")


@pytest.mark.parametrize(("spelling", "mib"), [("-memory-unit=GiB", 1024), ("--memory-unit", 256)])
def test_both_spellings_of_a_flag_mean_the_same(spelling: str, mib: int) -> None:
    """-x=v and --x v."""
    argv = [spelling] if "=" in spelling else [spelling, "256MiB"]

    assert plugin(*argv).memory_unit == MemoryUnit(mib)


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        # None lets the plugin ask which kubelet it is.
        ("max_ids", [], None),
        ("max_ids", ["--max-ids=10"], 10),
        ("sys_root", [], "/sys"),
        ("sys_root", ["--sys-root=/host/sys"], "/host/sys"),
        # As many as MPS serves by default; in ids mode they are not counted.
        ("slots", [], 0),
        ("slots", ["--mode=slots"], 48),
        ("slots", ["--mode", "slots", "--slots=7"], 7),
        ("repair", [], "exchange"),
        ("repair", ["--repair=exchange"], "exchange"),
        ("repair", ["-repair", "hold"], "hold"),
    ],
)
def test_a_plugin_flag_has_a_default_and_a_value(name: str, argv: list[str], expected: object) -> None:
    """Repairs are made unless the operator says hold, and limits are the kubelet's unless one is given."""
    assert getattr(plugin(*argv), name) == expected


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("port", [], 39999),
        ("audit_interval", [], 300.0),
        ("audit_interval", ["--audit-interval=90s"], 90.0),
        ("audit_interval", ["-audit-interval", "0"], 0.0),
        ("metrics_address", [], None),
        ("metrics_address", ["-metrics-address", ":9"], ("127.0.0.1", 9)),
    ],
)
def test_an_extender_flag_has_a_default_and_a_value(name: str, argv: list[str], expected: object) -> None:
    """The original's port, an audit every five minutes (0 is never), and metrics nowhere, or on loopback if no host is named."""
    assert getattr(extender_settings(argv, {}), name) == expected


def test_a_switch_does_not_swallow_the_next_flag() -> None:
    """A bare boolean before another flag."""
    assert plugin("-mps", "--memory-unit=MiB").memory_unit == MemoryUnit(1)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--memory-unit=KiB"], "--memory-unit: 'KiB' is not a memory unit"),
        (["--max-ids=x"], "--max-ids: 'x', not a number from 1 to"),
        ([f"--max-ids={'9' * 5000}"], ", not a number from 1 to"),
        (["--max-ids=0"], "--max-ids: '0'"),
        (["--log-level=loud"], "'loud', not one of"),
        (["--slots=0"], "--slots: '0'"),
        (["--cool-down", "soon"], "--cool-down: 'soon', not a time such as"),
        (["--survey-interval", "0"], "--survey-interval: '0'; it takes 1s"),
        (["--cool-down=-1s"], "--cool-down: '-1s', not a time"),
    ],
)
def test_settings_that_make_no_sense_say_so(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A setting that makes no sense ends the program with code two. The error names the flag and the value."""
    with pytest.raises(SystemExit) as ended:
        plugin(*argv)

    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_plugin_knows_its_node() -> None:
    """Without a name there is no node to announce cards on."""
    with pytest.raises(UsageError, match="NODE_NAME"):
        plugin("--node-name=")


@pytest.mark.parametrize("port", ["x", "-1", "70000", "1.5", ""])
def test_a_port_that_is_none_says_so(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """From flag or environment alike."""
    with pytest.raises(SystemExit):
        extender_settings([], {"PORT": port})

    assert f"--port: {port!r}, not a number from 0 to 65535 (the flag, or $PORT)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--nonsense"], ["-mps=maybe"], ["--visible-devices=both"], ["--repair=maybe"], ["positional"]]
)
def test_unknown_words_end_with_usage_and_code_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown word ends with usage and code two, as in kubectl and every Go program."""
    with pytest.raises(SystemExit) as ended:
        plugin(*argv)

    assert (ended.value.code, "usage:" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("argv", [["--slots=7"], ["--mode=ids", "--slots=7"]])
def test_slots_that_would_not_be_counted_are_an_error(argv: list[str]) -> None:
    """Told, not ignored."""
    with pytest.raises(UsageError, match="--slots"):
        plugin(*argv)


def test_cards_are_watched_by_default() -> None:
    """The original's default was off: a sick card stayed in use (D9)."""
    plain = device_plugin_settings(["--node-name", "n"], {}).health
    told = device_plugin_settings(
        ["-node-name=n", "--health-check=false", "--cool-down", "2m", "-survey-interval=30s", "--fail-on-init-error"],
        {"DP_DISABLE_HEALTHCHECKS": "48", "DP_ENABLE_HEALTHCHECKS": "all"},
    ).health

    assert (plain.check, plain.cool_down, plain.survey_interval, plain.fail_on_init_error) == (True, 60, 10, False)
    assert (plain.disabled, plain.enabled) == ("", "")
    assert (told.check, told.cool_down, told.survey_interval, told.fail_on_init_error) == (False, 120, 30, True)
    assert (told.disabled, told.enabled) == ("48", "all")


@pytest.mark.parametrize(
    "text", ["--audit-interval=soon", "--audit-interval=1s", "--audit-interval=-5m", "--metrics-address=x"]
)
def test_an_extender_flag_that_makes_no_sense_says_so(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An extender flag that makes no sense is an error that names it, also an interval that would keep the API server busy."""
    with pytest.raises(SystemExit):
        extender_settings([text], {})

    assert f"argument {text.partition('=')[0]}: " in capsys.readouterr().err
