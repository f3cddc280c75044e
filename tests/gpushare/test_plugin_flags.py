"""Promises of gpushare.plugin_flags, through the settings that read them."""

from __future__ import annotations

import pytest

from gpushare.plugin_flags import ContainerFlags, Tolerance, UsageFlags
from gpushare.settings import DevicePluginSettings, device_plugin_settings


def flags(*argv: str) -> DevicePluginSettings:
    """The settings from the flags."""
    return device_plugin_settings(argv, {"NODE_NAME": "rig"})


def test_by_default_nothing_is_served_looked_at_or_deleted() -> None:
    """The plugin serves, looks at and deletes nothing by default. A container gets its card by UUID, as in the original."""
    plain = flags()

    assert (plain.metrics_address, plain.usage.is_on, plain.delete_unadmitted) == (None, False, False)
    assert plain.container == ContainerFlags(("envvar",), "uuid", "nvidia.com/gpu", "cdi.k8s.io/")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9400", ("127.0.0.1", 9400)),
        ("0.0.0.0:9400", ("0.0.0.0", 9400)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_metrics_address_is_on_loopback_by_default(text: str, address: tuple[str, int]) -> None:
    """No port listens wider than configured."""
    assert flags(f"--metrics-address={text}").metrics_address == address


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        (["--usage"], UsageFlags(True, 15, Tolerance(percent=10), 60)),
        (
            [
                "-usage=true",
                "-usage-interval",
                "2s",
                "--overuse-tolerance=256MiB",
                "--overuse-after=1m30s",
                "--proc-root=/host",
            ],
            UsageFlags(True, 2, Tolerance(bytes=256 * 1024**2), 90, proc_root="/host"),
        ),
    ],
    ids=["by default", "given"],
)
def test_usage_has_rules(argv: list[str], usage: UsageFlags) -> None:
    """Every 15 s, a tenth above, for a minute; or as given, in Go's spelling of flags and times."""
    assert flags(*argv).usage == usage


@pytest.mark.parametrize(("text", "tolerance"), [("0", (0, 0)), ("25%", (25, 0)), ("1GiB", (0, 1024**3))])
def test_a_tolerance_is_a_share_or_a_size(text: str, tolerance: tuple[int, int]) -> None:
    """A tolerance is a share or a size, and 0 is none."""
    usage = flags("--usage", f"--overuse-tolerance={text}").usage

    assert tolerance == (usage.tolerance.percent, usage.tolerance.bytes)


def test_eviction_is_off_and_has_the_use_in_it() -> None:
    """On with its own switch, ten minutes after the report."""
    usage, evicting = flags("--usage").usage, flags("--evict-overusers", "--eviction-grace=90s").usage
    assert (usage.evict, usage.eviction_grace, usage.is_needed) == (False, 600, True)
    assert (evicting.evict, evicting.eviction_grace, evicting.is_needed) == (True, 90, True)
    assert not flags().usage.is_needed


def test_a_list_strategy_is_a_list_in_nvidias_words() -> None:
    """Comma-separated or repeated, each once, in their order."""
    given = flags("--device-list-strategy=cdi-cri, envvar", "--device-list-strategy", "cdi-cri,volume-mounts")

    assert given.container.list_strategies == ("cdi-cri", "envvar", "volume-mounts")


def test_a_card_is_named_by_either_flag() -> None:
    """NVIDIA's word, and ours of before. The last one counts, as of any flag."""
    assert flags("--device-id-strategy=index").container.id_strategy == "index"
    assert flags("--visible-devices=index").container.id_strategy == "index"
    assert flags("--visible-devices=uuid", "--device-id-strategy=index").container.id_strategy == "index"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--metrics-address=9400"], "--metrics-address: '9400', not HOST:PORT"),
        (["--metrics-address=host:70000"], "port up to 65535"),
        (["--metrics-address=::1:80"], "[IPV6]:PORT"),
        (["--usage-interval=0.5s"], "--usage-interval: '0.5s'; it takes 1s"),
        (["--usage-interval=fast"], "--usage-interval: 'fast', not a time such as 15s"),
        (["--overuse-after="], "--overuse-after: ''"),
        (["--overuse-after=25h"], "it takes 0s to 86400s"),
        (["--eviction-grace=0s"], "--eviction-grace: '0s'; it takes 1s"),
        (["--overuse-tolerance=10"], "--overuse-tolerance: '10', neither a share such as 10%"),
        (["--overuse-tolerance=-1%"], "--overuse-tolerance"),
        (["--device-list-strategy=cdi"], "'cdi'; it takes envvar, volume-mounts, cdi-annotations, cdi-cri"),
        (["--device-list-strategy=envvar,"], "'envvar,'; it takes"),
        (["--cdi-kind=gpu"], "--cdi-kind: 'gpu', not vendor/class"),
        (["--cdi-annotation-prefix=cdi"], "--cdi-annotation-prefix: 'cdi'"),
    ],
)
def test_what_makes_no_sense_says_so(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag that makes no sense is an error that names the flag, the value and what it takes, also without --usage."""
    with pytest.raises(SystemExit) as ended:
        flags(*argv)

    assert ended.value.code == 2
    assert says in capsys.readouterr().err
