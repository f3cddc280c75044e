"""Flags and variables for when the device plugin takes a card for sick, and for well again. Read by ``settings``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpushare.plugin_flags import duration

# Variables of NVIDIA's device plugin, with its meaning: see deviceplugin.xid_rules.
ENV_DISABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENV_ENABLE: Final = "DP_ENABLE_HEALTHCHECKS"

Flag = Callable[..., None]


@dataclass(frozen=True, slots=True)
class HealthFlags:
    """How the cards are watched; times in seconds."""

    check: bool
    """Whether Xids make a card sick."""
    disabled: str
    """Xids to ignore beside those of applications, as written."""
    enabled: str
    """Xids to heed all the same, as written."""
    cool_down: float
    """How long a sick card must be in order before it recovers by itself."""
    survey_interval: float
    """The least time between two counts of the cards."""
    fail_on_init_error: bool
    """Whether a missing driver ends the plugin instead of being waited for."""


def add_health_flags(parser: argparse.ArgumentParser, flag: Flag, switch: Flag) -> None:
    """Declare them; ``flag`` and ``switch`` add one to the parser in both of Go's spellings."""
    switch(parser, "health-check", "take a card out of use on a critical Xid (default: true)")
    parser.set_defaults(health_check=True)
    flag(
        parser,
        "cool-down",
        default="60s",
        help="how long a driver must ask for no recovery, and the card answer, before it is well (default: 60s)",
    )
    flag(
        parser,
        "survey-interval",
        default="10s",
        help="between two counts of the cards; a card that the kernel tells of is counted at once (default: 10s)",
    )
    switch(parser, "fail-on-init-error", "end where there is no driver, instead of waiting for it (default: false)")


def read_health_flags(parsed: argparse.Namespace, env: Mapping[str, str]) -> HealthFlags:
    """The flags and variables, checked. Raises UsageError."""
    return HealthFlags(
        check=parsed.health_check,
        disabled=env.get(ENV_DISABLE, ""),
        enabled=env.get(ENV_ENABLE, ""),
        cool_down=duration(parsed.cool_down, "cool-down"),
        survey_interval=duration(parsed.survey_interval, "survey-interval", least=1.0),
        fail_on_init_error=parsed.fail_on_init_error,
    )
