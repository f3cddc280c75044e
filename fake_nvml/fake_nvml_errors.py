"""The errors of simulated cards, one tree; programs print the text and exit with 1."""

from __future__ import annotations


class FakeNvmlError(Exception):
    """Base: the text names the cause, the place and what to do."""


class CatalogueError(FakeNvmlError):
    """A card, a box or a driver version that does not exist or does not go together."""


class StateError(FakeNvmlError):
    """A state file that is missing, not ours, of another version, or not writable; a card or key that it has not."""


class CardFullError(StateError):
    """A process asks for more memory than the card has free, as a real card would refuse it."""


class RealDriverError(FakeNvmlError):
    """This machine has a real driver, and simulated cards were not asked for on purpose."""


class LayerError(FakeNvmlError):
    """The layer of ``fake-nvml exec`` that was asked for is not here."""


class ScenarioError(FakeNvmlError):
    """A scenario that cannot be read, or a step of it that cannot be done."""


class RecordError(FakeNvmlError):
    """No NVML with answers to record."""
