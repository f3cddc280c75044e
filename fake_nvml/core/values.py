"""The keys of ``fake-nvml set CARD KEY VALUE``, their values, and the field that each writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import HEALTHY, LOST, Card, as_text
from fake_nvml.fake_nvml_errors import StateError

_SWITCH = {"off": 0, "on": 1}
# A mode -> the field of its value after the next reset, which is changed with it.
PENDING = MappingProxyType({"mig_mode": "mig_pending", "ecc_mode": "ecc_pending"})
COMPUTE_MODES = MappingProxyType({"default": 0, "exclusive-thread": 1, "prohibited": 2, "exclusive-process": 3})
_STATE = {"healthy": HEALTHY, "lost": LOST}
_ADVICE = {
    "none": 0,
    "gpu-reset": 1,
    "node-reboot": 2,
    "drain-p2p": 3,
    "drain-and-reset": 4,
    "imex": 5,
    "bus-reset": 6,
    "system-reboot": 7,
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its record field, the values it takes, and their factor to the record's unit.

    Where there are ``words``, only with ``numbers`` numbers are taken too.
    """

    field: str
    help: str
    most: int = 2**31
    factor: int = 1
    words: Mapping[str, int] | None = None
    numbers: bool = False
    offered: Callable[[Card], bool] = lambda _: True


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "memory-used": Key("memory_other", "MiB in use on the card in all", factor=MIB),
        "utilization": Key("utilization", "percent of time with a kernel running", most=100),
        "memory-utilization": Key("memory_utilization", "percent of time with memory traffic", most=100),
        "temperature": Key("temperature", "degrees Celsius", most=200),
        "power": Key("power", "watts", most=10_000, factor=1000),
        "power-limit": Key("power_limit", "watts", most=10_000, factor=1000),
        "fan": Key("fan", "percent of the fan's speed", most=100, offered=lambda card: bool(card.fans)),
        "encoder": Key("encoder", "percent of time in which the encoder works", most=100),
        "decoder": Key("decoder", "percent of time in which the decoder works", most=100),
        "pcie-sent": Key("pcie_sent", "KB/s from the card"),
        "pcie-received": Key("pcie_received", "KB/s to the card"),
        "compute-mode": Key("compute_mode", "how many processes may compute", words=COMPUTE_MODES),
        "persistence": Key("persistence", "on or off", words=_SWITCH),
        "state": Key("state", "healthy or lost", words=_STATE),
        "mig": Key("mig_mode", "on or off", words=_SWITCH, offered=lambda card: bool(card.mig_slices)),
        "ecc": Key("ecc_mode", "on or off", words=_SWITCH, offered=lambda card: bool(card.ecc_supported)),
        "ecc-corrected": Key("ecc_corrected", "errors", offered=lambda card: bool(card.ecc_supported)),
        "ecc-uncorrected": Key("ecc_uncorrected", "errors", offered=lambda card: bool(card.ecc_supported)),
        "recovery-action": Key(
            "recovery_action", f"NVML's number, or {', '.join(_ADVICE)}", most=7, words=_ADVICE, numbers=True
        ),
    }
)


def parse_value(key: str, value: str, card: Card) -> tuple[str, int]:
    """The record field and the number for it. Raises StateError for a wrong key or value, or a card without it."""
    known = KEYS.get(key)
    if known is None:
        raise StateError(f"no key {key!r}; there are {', '.join(KEYS)}")
    if not known.offered(card):
        raise StateError(f"{as_text(card.name)} has no {key}")
    if known.words is not None and value in known.words:
        return known.field, known.words[value]
    if known.words is not None and not known.numbers:
        raise StateError(f"{key} is {' or '.join(known.words)}, not {value!r}")
    if not (value.isascii() and value.isdigit() and int(value) <= known.most):
        raise StateError(f"{key} is a whole number from 0 to {known.most} ({known.help}), not {value!r}")
    return known.field, int(value) * known.factor
