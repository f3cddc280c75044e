"""The errors of simulated cards, one tree; programs print the text and exit with 1."""

from __future__ import annotations


class FakeNvmlError(Exception):
    """Base: the text names the cause, the place and what to do."""


class CatalogueError(FakeNvmlError):
    """A card, a box or a driver version that does not exist, or two that do not go together."""


class StateError(FakeNvmlError):
    """A state file that is missing, not ours, of another version, or not writable, or one that lacks the card or key asked for."""


class CardFullError(StateError):
    """A process asks for more memory than the card has free, as a real card would refuse it."""


class RealDriverError(FakeNvmlError):
    """This machine has a real driver, and ``FAKENVML_STATE`` does not ask for simulated cards explicitly."""


class RecordError(FakeNvmlError):
    """There is no NVML here, or it gives no answers to record."""
