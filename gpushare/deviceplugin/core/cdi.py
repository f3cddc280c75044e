"""Names of the Container Device Interface: a container asks the runtime for ``nvidia.com/gpu=<card>``. Pure.

The rules are those of the CDI specification (version 0.6 and later): a kind is ``vendor/class`` (``plugin_flags`` checks
the flag), a device name starts and ends with a letter or digit, and may hold ``_ - . :`` between; the last part
of an annotation's key has at most 63 characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_LONGEST_KEY: Final = 63


def device_name(kind: str, card: str) -> str:
    """The name by which a runtime knows a card: ``nvidia.com/gpu=GPU-…``, or by index ``nvidia.com/gpu=0``."""
    return f"{kind}={card}"


def annotation(prefix: str, kind: str, cards: Sequence[str], request: str) -> dict[str, str]:
    """The annotation that asks a runtime of before CRI's own field for these cards.

    ``request`` makes the key unique: any text that no other container's request has.
    """
    key = f"gpushare_{request}"[:_LONGEST_KEY].rstrip("-_.")
    return {prefix + key: ",".join(device_name(kind, card) for card in cards)}
