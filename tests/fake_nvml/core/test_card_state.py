"""Records as values for programs."""

from __future__ import annotations

from fake_nvml.core.answers import PLACES
from fake_nvml.core.card_state import CardState, ProcessState, card_states
from fake_nvml.core.fill import MIB
from fake_nvml.core.layout import COMPUTE, LOST, UNKNOWN64, blank
from fake_nvml.core.returns import Code


def test_a_cards_state_has_what_its_record_has() -> None:
    """Memory in MiB, power in watts, a name that no process would have whole, and what is not answered by its code."""
    content = blank()
    content.header.card_count, content.header.process_rows = 3, 2
    content.cards[0].uuid = b"GPU-\xff"
    content.cards[0].numa = 0
    card = content.cards[2]
    card.uuid, card.name, card.serial, card.state = b"GPU-a", b"Tesla \xff", b"12\xff", LOST
    card.memory_total, card.memory_reserved, card.memory_other = 2048 * MIB + 9, 24 * MIB + 9, 300 * MIB
    card.utilization, card.temperature, card.power, card.power_limit, card.numa = 40, 71, 65_500, 70_250, -1
    card.mig_mode, card.pci_domain, card.pci_bus, card.pci_device = 1, 0x1A, 0xB, 0xC
    card.ecc_supported, card.ecc_mode, card.ecc_corrected, card.ecc_uncorrected = 1, 0, 5, 6
    card.recovery_action, card.fan, card.compute_mode = 2, 23, 3
    card.refused[PLACES["nvmlDeviceGetSerial"]] = Code.NO_PERMISSION
    for row, (memory, name) in zip(content.processes, [(7 * MIB + 9, b"player\xc3"), (UNKNOWN64, b"")], strict=False):
        row.kind, row.card, row.pid, row.memory, row.name = COMPUTE, 2, 4711, memory, name

    first, second = card_states(content)

    assert second == CardState(
        index=1, uuid="GPU-a", name="Tesla \ufffd", serial="12\ufffd", total_mib=2048, used_mib=307, reserved_mib=24,
        processes=(ProcessState(4711, "player", 7), ProcessState(4711, "", None)),
        utilization=40, temperature=71, power_watts=65.5, power_limit_watts=70.25, numa=None, mig=True, lost=True,
        bus_id="0000001A:0B:0C.0", ecc=False, ecc_corrected=5, ecc_uncorrected=6, recovery_action=2, fan=23,
        compute_mode=3, refused={"nvmlDeviceGetSerial": "NO_PERMISSION"},
    )  # fmt: skip
    assert (first.index, first.uuid, first.numa, first.ecc, first.mig, first.lost) == (
        0,
        "GPU-\ufffd",
        0,
        None,
        False,
        False,
    )


def test_what_a_card_does_not_answer_is_unknown() -> None:
    """None for a number that its driver refuses, whatever the record has."""
    content = blank()
    content.header.card_count = 1
    card = content.cards[0]
    card.uuid, card.temperature, card.power, card.power_limit, card.fan, card.compute_mode = b"GPU-a", 1, 1, 1, 1, 1
    for name in ("Temperature", "PowerUsage", "PowerManagementLimit", "FanSpeed", "ComputeMode"):
        card.refused[PLACES[f"nvmlDeviceGet{name}"]] = Code.NOT_SUPPORTED

    (state,) = card_states(content)
    assert (state.temperature, state.power_watts, state.power_limit_watts, state.fan, state.compute_mode) == (None,) * 5
