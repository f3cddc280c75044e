"""``fake-nvml record``: the answers of NVML about a node's cards, as a box file that ``fake-nvml init --box FILE`` takes.

Everything is asked through pynvml. Each call is written with what it answered, or with its return code if it failed,
so that the simulated cards refuse what the real ones refused. UUIDs, serial numbers and pids are in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from fake_nvml.core.c_source import MARKER
from fake_nvml.core.returns import Code, code_name
from fake_nvml.fake_nvml_errors import RecordError
from fake_nvml.recorded_calls import CARD_CALLS, SYSTEM_CALLS, NotAskedError

# Answers that a card gives differently at each question, or while it is used. Simulated cards with a recording begin idle.
_LIVE: Final = (
    "UtilizationRates",
    "EncoderUtilization",
    "DecoderUtilization",
    "PcieThroughput",
    "RunningProcesses",
    "ProcessName",
    "TemperatureV",
)
_LIVE_MEMORY: Final = ("free", "used")


def record(library: Path | None) -> dict[str, Any]:
    """The cards of this node as a box file's content.

    Asks the NVML library at ``library``, else the system's. Raises RecordError if there is none, or no driver for it.
    """
    with _pynvml(library) as pynvml:
        driver = _plain(pynvml.nvmlSystemGetDriverVersion())
        count = pynvml.nvmlDeviceGetCount()
        return {
            "driver": driver,
            "simulated": hasattr(pynvml.nvmlLib, MARKER),
            "system": {name: _answer(pynvml, ask, pynvml) for name, ask in SYSTEM_CALLS.items()},
            "cards": [{"recorded": _card(pynvml, index)} for index in range(count)],
        }


@contextlib.contextmanager
def _pynvml(library: Path | None) -> Iterator[Any]:
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise RecordError("pynvml is not installed; pip install nvidia-ml-py") from error
    try:
        if library is not None:
            pynvml.nvmlLib = ctypes.CDLL(str(library))
            # pynvml keeps each function that it once looked up.
            pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError) as error:
        raise RecordError(f"no NVML to record: {error}") from error
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise RecordError(f"NVML stopped answering: {error}") from error
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(pynvml: Any, index: int) -> dict[str, Any]:
    handle = _answer(pynvml, pynvml.nvmlDeviceGetHandleByIndex, index, raw=True)
    if isinstance(handle, dict):
        return {"nvmlDeviceGetHandleByIndex": handle}
    calls: dict[str, Any] = {}
    for name, ask in CARD_CALLS.items():
        with contextlib.suppress(NotAskedError):
            calls[name] = _answer(pynvml, ask, pynvml, handle)
    return calls


def _answer(pynvml: Any, ask: Callable[..., Any], *arguments: Any, raw: bool = False) -> Any:
    """A call's answer as YAML's types, or ``{"returns": name of its code}``."""
    try:
        value = ask(*arguments)
    except pynvml.NVMLError as error:
        return {"returns": code_name(error.value)}
    except UnicodeDecodeError as error:
        # pynvml decodes strictly, and drivers have answered other bytes.
        return error.object.decode(errors="replace")
    except Exception as error:
        # Newer versions report a missing symbol by an error outside of their own tree.
        if type(error).__name__ != "NVMLLibraryMismatchError":
            raise
        return {"returns": code_name(Code.FUNCTION_NOT_FOUND)}
    return value if raw else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, ctypes.Structure):
        return {name: _plain(getattr(value, name)) for name, *_ in value._fields_ if name != "version"}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "__dict__"):  # the friendly copies that pynvml makes of some structs
        return {name: _plain(entry) for name, entry in vars(value).items()}
    return value


def steady(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers that stay the same from question to question: those of the system, and those of each card."""
    return [_steady(recording["system"]), *(_steady(card["recorded"]) for card in recording["cards"])]


def _steady(answers: dict[str, Any]) -> dict[str, Any]:
    kept = {call: answer for call, answer in answers.items() if not any(word in call for word in _LIVE)}
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        if isinstance(kept.get(call), dict):
            kept[call] = {key: value for key, value in kept[call].items() if key not in _LIVE_MEMORY}
    return kept
