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


def test_extenders_metrics_have_their_own_address_or_none() -> None:
    """As the device plugin's: loopback if no host is named; by default nothing more listens."""
    assert extender_settings([], {}).metrics_address is None
    assert extender_settings(["-metrics-address", ":9"], {}).metrics_address == ("127.0.0.1", 9)
    with pytest.raises(UsageError, match="--metrics-address is 'x'"):
        extender_settings(["--metrics-address=x"], {})


def test_without_port_the_originals_default_holds() -> None:
    """39999."""
    assert extender_settings([], {}).port == 39999


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


def test_a_switch_does_not_swallow_the_next_flag() -> None:
    """A bare boolean before another flag."""
    assert plugin("-mps", "--memory-unit=MiB").memory_unit == MemoryUnit(1)


def test_unset_limits_are_the_kubelets() -> None:
    """None lets the plugin ask which kubelet it is."""
    assert (plugin().max_ids, plugin("--max-ids=10").max_ids) == (None, 10)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--memory-unit=KiB"], "--memory-unit: 'KiB'"),
        (["--max-ids=x"], "--max-ids is 'x'"),
        (["--max-ids=0"], "--max-ids is '0'"),
        (["--log-level=loud"], "'loud'"),
        (["--node-name="], "NODE_NAME"),
    ],
)
def test_settings_that_make_no_sense_say_so(argv: list[str], says: str) -> None:
    """Which flag, what was given, what would do."""
    with pytest.raises(UsageError, match=says):
        plugin(*argv)


@pytest.mark.parametrize("port", ["x", "-1", "70000", "1.5", ""])
def test_a_port_that_is_none_says_so(port: str) -> None:
    """From flag or environment alike."""
    with pytest.raises(UsageError, match=r"--port, by \$PORT, is"):
        extender_settings([], {"PORT": port})


@pytest.mark.parametrize("argv", [["--nonsense"], ["-mps=maybe"], ["--visible-devices=both"], ["positional"]])
def test_unknown_words_end_with_usage_and_code_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl and every Go program do."""
    with pytest.raises(SystemExit) as ended:
        plugin(*argv)

    assert (ended.value.code, "usage:" in capsys.readouterr().err) == (2, True)


def test_the_kernels_files_may_lie_elsewhere() -> None:
    """In a container that has the host's at another place."""
    assert (plugin().sys_root, plugin("--sys-root=/host/sys").sys_root) == ("/sys", "/host/sys")


def test_slots_mode_has_a_number_of_slots() -> None:
    """As many as MPS serves by default; in ids mode they are not counted."""
    assert (plugin().slots, plugin("--mode=slots").slots, plugin("--mode", "slots", "--slots=7").slots) == (0, 48, 7)


@pytest.mark.parametrize("argv", [["--slots=7"], ["--mode=ids", "--slots=7"], ["--mode=slots", "--slots=0"]])
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


@pytest.mark.parametrize("flags", [["--cool-down", "soon"], ["--survey-interval", "0"], ["--cool-down=-1s"]])
def test_times_of_the_watch_must_make_sense(flags: list[str]) -> None:
    """Texts, zero and negative times are usage errors."""
    with pytest.raises(UsageError, match="takes|time such as"):
        device_plugin_settings(["--node-name", "n", *flags], {})


def test_repairs_are_made_unless_the_operator_says_hold() -> None:
    """Where another extender binds pods too; anything else is a slip."""
    assert [plugin(*argv).repair for argv in ([], ["--repair=exchange"], ["-repair", "hold"])] == [
        "exchange",
        "exchange",
        "hold",
    ]
    with pytest.raises(SystemExit):
        plugin("--repair=maybe")


def test_book_is_audited_every_five_minutes_by_default() -> None:
    """0 is never."""
    told = [
        extender_settings(argv, {}).audit_interval for argv in ([], ["--audit-interval=90s"], ["-audit-interval", "0"])
    ]
    assert told == [300.0, 90.0, 0.0]


@pytest.mark.parametrize("text", ["soon", "1s", "-5m"])
def test_an_interval_that_would_keep_the_api_server_busy_says_so(text: str) -> None:
    """Or that is none."""
    with pytest.raises(UsageError, match="--audit-interval"):
        extender_settings([f"--audit-interval={text}"], {})
