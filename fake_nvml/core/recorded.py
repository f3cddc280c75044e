"""A recorded card of a box file (``fake-nvml record``) as fields of a state file's record.

A call that a recorded driver did not answer is not answered by the simulated card either, with the same return code. How busy
the card was is recorded for people only: simulated cards begin idle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fake_nvml.core.answers import ANSWERS, KEYS, NEED_A_VALUE, OF_NVLINKS, RECOVERY_ACTION, SYSTEM_KEYS, unversioned
from fake_nvml.core.layout import LOST, Card
from fake_nvml.core.returns import CODES, NVLINK_TO_CARD, Code
from fake_nvml.fake_nvml_errors import CatalogueError

Calls = Mapping[str, Any]
Fields = dict[str, int | bytes]

# Calls that older recordings lack -> the call with the answer that stands for them.
_LIKE: Final = dict.fromkeys(OF_NVLINKS, "nvmlDeviceGetNvLinkState")
# The one call of a card that did not even have a handle.
_HANDLE: Final = "nvmlDeviceGetHandleByIndex"
# A record has two bytes for a code.
_CODES_END: Final = 2**16
# Fields that begin as a new card has them, whatever was recorded.
_BEGIN: Final = frozenset({"encoder", "decoder", "pcie_sent", "pcie_received"})
_ADDRESS_CALLS: Final = ("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
_ADDRESS: Final = {
    "pci_domain": "domain",
    "pci_bus": "bus",
    "pci_device": "device",
    "pci_device_id": "pciDeviceId",
    "pci_subsystem_id": "pciSubSystemId",
}


@dataclass(frozen=True, slots=True)
class RecordedCard:
    """``uuid`` and ``serial`` are "" if the driver did not answer them; ``fields`` are all others, by their names.

    ``refused``: key of ``answers`` -> the return code that it was answered with.
    """

    uuid: str
    serial: str
    fields: Fields
    refused: Mapping[str, int] = field(default_factory=dict)


def recorded_card(calls: object) -> RecordedCard:
    """Read the ``recorded`` part of a box's card. Raises CatalogueError if it is none."""
    with _explained("recorded"):
        known = _calls(calls)
        if _HANDLE in known and not _known(known, _HANDLE):
            return _without_handle(_code(known, _HANDLE))
        refused = _refused_keys(known, frozenset(KEYS) - SYSTEM_KEYS)
        uuid, serial, fields = _text(known, "nvmlDeviceGetUUID"), _text(known, "nvmlDeviceGetSerial"), _fields(known)
        _check_room({**fields, "uuid": uuid.encode(), "serial": serial.encode()})
        return RecordedCard(uuid, serial, fields, refused)


def refused_of_system(calls: object) -> dict[str, int]:
    """The keys of functions that are about no card and were not answered, with their codes. Raises CatalogueError."""
    with _explained("system"):
        return _refused_keys(_calls(calls), SYSTEM_KEYS)


@contextlib.contextmanager
def _explained(part: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CatalogueError(f"{part} is not what fake-nvml record writes: {error!r}") from error


def _calls(calls: object) -> Calls:
    if not isinstance(calls, dict):
        raise TypeError("not calls and what they answered")
    return calls


def _check_room(fields: Fields) -> None:
    """Raise ValueError for a value that a record has no room for: ctypes would cut numbers and texts with a NUL."""
    probe = Card()
    for name, value in fields.items():
        setattr(probe, name, value)
        if getattr(probe, name) != value:
            raise ValueError(f"{name} is {value!r}, which no card has")


def _refused_keys(calls: Calls, keys: Collection[str]) -> dict[str, int]:
    """Those of ``keys`` that were not answered, with their codes. A call without a version stands for versions that are missing."""
    codes = {key: _refusal(calls, key) for key in keys}
    return {key: code for key, code in codes.items() if code != Code.SUCCESS}


def unknown_calls(calls: object) -> Iterator[str]:
    """The calls of a recording that simulated cards have no place for."""
    known = {*KEYS, *map(unversioned, KEYS)}
    return (call for call in calls if call not in known) if isinstance(calls, dict) else iter(())


def _without_handle(code: int) -> RecordedCard:
    """A card that answered nothing: lost, or every function of it answers with the code that its handle had."""
    fields: Fields = {"name": b"", "numa": -1}
    if code == Code.GPU_IS_LOST:
        return RecordedCard("", "", {**fields, "state": LOST})
    return RecordedCard("", "", fields, dict.fromkeys(frozenset(KEYS) - SYSTEM_KEYS, code))


def _refusal(calls: Calls, key: str) -> int:
    for call in (key, unversioned(key), _LIKE.get(key, key)):
        if call in calls:
            break
    else:
        # A value that is not in the recording is not known; a function that needs none answers.
        return Code.NOT_SUPPORTED if key in NEED_A_VALUE else Code.SUCCESS
    return Code.SUCCESS if _known(calls, call) else _code(calls, call)


def _fields(calls: Calls) -> Fields:
    # A garbled name, recorded with replacement characters, is longer than what the driver answered.
    name = _text(calls, "nvmlDeviceGetName").encode()[: Card.name.size - 1].decode(errors="ignore")
    fields: Fields = {"name": name.encode(), "state": 0, **_memory(calls), **_numbers(calls)}
    fields["recovery_action"] = int(_value(calls, RECOVERY_ACTION, 0))
    address = next((calls[call] for call in _ADDRESS_CALLS if _known(calls, call)), None)
    if address is not None:
        fields |= {field: int(address[key]) for field, key in _ADDRESS.items()}
    fields["numa"] = int(next(iter(_value(calls, "nvmlDeviceGetMemoryAffinity", ())), -1))
    fields |= _nvlinks(calls)
    fields["ecc_supported"] = int(_known(calls, "nvmlDeviceGetEccMode"))
    return fields


def _nvlinks(calls: Calls) -> Fields:
    """The links, to cards or to switches: one switch if the other ends were not recorded."""
    links = max(len(_value(calls, name, ())) for name in OF_NVLINKS)
    ends = len(set(_value(calls, "nvmlDeviceGetNvLinkRemotePciInfo_v2", [""])))
    to_cards = NVLINK_TO_CARD in _value(calls, "nvmlDeviceGetNvLinkRemoteDeviceType", ())
    return {"nvlinks": links, "nvswitches": 0 if to_cards else min(ends, links), "nvlink_peers": (ends + 1) * to_cards}


def _numbers(calls: Calls) -> Fields:
    """The fields of functions that answer straight from the record, as an idle card has them."""
    fields: Fields = {}
    for key, answer in ANSWERS.items():
        if not _known(calls, key):
            fields |= {name: fields.get(name, 0) for name in (*answer.fields, *answer.idle)}
            continue
        values = calls[key] if len(answer.fields) > 1 else [calls[key]]
        # A call that answers another field while the card works was made of an idle one.
        named = zip(answer.idle or answer.fields, values, strict=True)
        fields |= {name: int(value) for name, value in named if name not in _BEGIN}
    for answer in ANSWERS.values():
        # A limit that is not known is as high as what the idle card showed.
        if answer.idle and answer.idle[0] != "idle_state" and not fields.get(answer.fields[0]):
            fields[answer.fields[0]] = fields[answer.idle[0]]
    if _known(calls, "nvmlDeviceGetFanSpeed") and not _known(calls, "nvmlDeviceGetNumFans"):
        fields["fans"] = 1
    for name, call in (("events", "nvmlDeviceRegisterEvents"), ("temperature", "nvmlDeviceGetTemperatureV")):
        fields[name] = fields[name] or int(_value(calls, call, 0))
    return fields


def _memory(calls: Calls) -> Fields:
    """A total of 0 means that it is not known."""
    older = _value(calls, "nvmlDeviceGetMemoryInfo", {"total": 0})
    memory = _value(calls, "nvmlDeviceGetMemoryInfo_v2", {"total": older["total"], "reserved": 0})
    return {"memory_total": int(memory["total"]), "memory_reserved": int(memory["reserved"])}


def _known(calls: Calls, call: str) -> bool:
    """Whether a call answered; one that was not asked did not."""
    answer = calls.get(call)
    return answer is not None and not (isinstance(answer, dict) and "returns" in answer)


def _value(calls: Calls, call: str, unknown: object) -> Any:
    """The answer of a call, ``unknown`` if it did not answer."""
    return calls[call] if _known(calls, call) else unknown


def _code(calls: Calls, call: str) -> int:
    """The code that a call failed with, by NVML's name, or by its number if it has no name."""
    answer = calls[call]
    name = str(answer["returns"]) if answer is not None else "NOT_SUPPORTED"
    code = CODES[name] if name in CODES else int(name)
    if not Code.SUCCESS <= code < _CODES_END:
        raise ValueError(f"{call} returns {code}")
    return code


def _text(calls: Calls, call: str) -> str:
    return str(_value(calls, call, ""))
