"""The refusals of NVML, one class for each thing that a caller may want to do about it::

NvmlError
├── NoDriverError       no library, no kernel module, or the two do not match: no card of this machine can be used
├── NotInitializedError NVML was shut down under us; open it again
├── CardLostError       the card fell off the bus; its place in the list stays
├── CardNotFoundError   no card of that UUID
└── UnsupportedError    this card or this driver cannot answer that
"""

from __future__ import annotations

from typing import Final

from gpushare.errors import GpushareError

# NVML's codes for a process that is kept from a card: no permission, blocked by the operating system (its control groups).
BLOCKED_CODES: Final = frozenset({4, 17})
# Its codes for faults that a new container may cure, too: the library does not fit the kernel module, and an unknown error.
CONTAINER_CODES: Final = BLOCKED_CODES | {18, 999}


class NvmlError(GpushareError):
    """NVML refused. ``code`` is its return code, 0 if the call never got that far."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class NoDriverError(NvmlError):
    """There is no NVML to ask; the text names the thing to install or mount."""


class NotInitializedError(NvmlError):
    """NVML was shut down under us, or not opened yet; opening it again helps."""


class CardLostError(NvmlError):
    """The card does not answer any more; only a reset or a reboot may bring it back."""


class CardNotFoundError(NvmlError):
    """No card of that UUID in this machine."""


class UnsupportedError(NvmlError):
    """This card or this driver does not know the answer."""
