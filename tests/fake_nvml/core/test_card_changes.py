"""Changes of cards: the names that follow from a text."""

from __future__ import annotations

from fake_nvml.core.card_changes import made_serial, made_uuid


def test_a_node_has_the_same_cards_in_every_version() -> None:
    """Tests of others name these; a serial number has thirteen digits."""
    assert made_uuid("card node-1/0") == "GPU-cea3a137-14f6-d659-e204-6571e4435562"
    assert made_serial("node-1/0") == "8344114671396"
    assert {len(made_serial(str(seed))) for seed in range(100)} == {13}
