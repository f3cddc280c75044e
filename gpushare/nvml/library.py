"""NVML through the real pynvml: how it is loaded, its answers about cards and processes, and its errors as ours.

pynvml keeps one library a process, and so do we: ``initialise`` twice in one process shares it. Functions that an old
driver lacks (process lists before R510, MIG before R450) are asked in an older form, or answered with "not known".

pynvml raises more than NVMLError: it decodes each text strictly as UTF-8, so a driver that answers other bytes (555.85 on WSL2 did)
makes it raise UnicodeDecodeError, even for the text of an error. Versions that do not fit the library raise AttributeError or
ValueError. Whatever it raises means that there is no answer, and becomes an NvmlError with the reason (``translated``).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pynvml

from gpushare.nvml.api import (
    Card,
    CardLostError,
    LimitSupport,
    NoDriverError,
    NotInitializedError,
    NvmlError,
    Process,
    Survey,
    UnreadableCard,
)

_MIB: Final = 1024 * 1024
_NOT_KNOWN: Final = 2**64 - 1
# Far more cards than a machine holds: such a count is no answer.
_MOST_CARDS: Final = 1024
# Codes of a driver that has no limits after all; 0 is a pynvml that has none.
_WITHOUT_LIMITS: Final = (
    0,
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
)
# Words of 64 NUMA nodes each to ask for.
_AFFINITY_WORDS: Final = 4
_AFFINITY_NODE: Final = 0
# How often the room for a process list is doubled, before a driver that always asks for more is believed to be ill.
_LIST_ATTEMPTS: Final = 4
# Raised in place of FunctionNotFound by some functions of some pynvml versions; no NVMLError.
_MISMATCH: Final = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)

_NO_DRIVER: Final = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded; run nvidia-smi on the node to see why",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "there is no libnvidia-ml.so.1; install the NVIDIA driver on the node and give this container the nvidia "
        "runtime, or name the library with --nvml-library"
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVML library is of another version than the kernel module; after an update of the driver, reboot the node, "
        "or restart this container if the module was reloaded"
    ),
}
_KINDS: Final[dict[int, type[NvmlError]]] = {
    **dict.fromkeys(_NO_DRIVER, NoDriverError),
    pynvml.NVML_ERROR_UNINITIALIZED: NotInitializedError,
    pynvml.NVML_ERROR_GPU_IS_LOST: CardLostError,
}


@contextlib.contextmanager
def translated(act: str) -> Iterator[None]:
    """Turn whatever pynvml raises into an NvmlError; ``act`` is the attempt, for its text."""
    try:
        yield
    except NvmlError:
        raise
    except (pynvml.NVMLError, _MISMATCH) as error:
        code = getattr(error, "value", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        reason = _NO_DRIVER.get(code) or f"NVML says: {_text_of(error)} (code {code})"
        raise _KINDS.get(code, NvmlError)(f"cannot {act}: {reason}", code) from error
    except Exception as error:
        reason = f"its answer cannot be read ({type(error).__name__}: {_text_of(error)})"
        raise NvmlError(f"cannot {act}: {reason}") from error


def _text_of(error: Exception) -> str:
    """The text of an error. pynvml asks the library for it, so it may fail as any other answer."""
    try:
        return str(error)
    except Exception:
        return "an error whose text cannot be read"


def known(ask: Callable[[], Any]) -> Any:
    """An answer, or None if there is none: a card must not be lost for a fact that is only useful."""
    try:
        with translated("ask"):
            return ask()
    except (CardLostError, NotInitializedError):
        raise
    except NvmlError:
        return None


def text_of(ask: Callable[[], str | bytes]) -> str:
    """A text that NVML answers; bytes that are no UTF-8 are replaced. Raises what ``ask`` raises otherwise."""
    try:
        return text(ask())
    except UnicodeDecodeError as error:
        return text(bytes(error.object))


def text(value: str | bytes) -> str:
    """Some pynvml versions answer bytes, and others str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def survey() -> Survey:
    """All cards that NVML counts; one that does not answer is unreadable, with the reason, and stops no other.

    If two cards have one UUID, the second is unreadable: nothing could tell which of them a pod has.
    """
    with translated("count the cards"):
        count = pynvml.nvmlDeviceGetCount()
    if not 0 <= count <= _MOST_CARDS:
        raise NvmlError(f"cannot count the cards: NVML says that there are {count}")
    cards: dict[str, Card] = {}
    unreadable = []
    for index in range(count):
        uuid = ""
        try:
            handle, uuid = _find(index)
            if uuid in cards:
                raise NvmlError(f"card {index} has the UUID of card {cards[uuid].index} ({uuid}), so it is not shared")
            cards[uuid] = _card(index, uuid, handle)
        except NvmlError as error:
            unreadable.append(UnreadableCard(index, str(error), uuid, error.code))
    return Survey(tuple(cards.values()), tuple(unreadable))


def processes(uuid: str) -> tuple[Process, ...]:
    """The processes on a card, by pid. One that computes and draws is in two lists with the same memory."""
    with translated(f"find card {uuid}"):
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    found: dict[int, int | None] = {}
    for pid, mib in _running(handle, f"list the processes of card {uuid}"):
        before = found.get(pid)
        found[pid] = mib if before is None else max(before, mib or 0)
    return tuple(Process(pid, found[pid]) for pid in sorted(found))


def limit_support(uuids: Iterable[str], folder: Path) -> LimitSupport:
    """May these cards limit the memory of control groups? ``folder`` is any group's. Setting a limit would need privilege."""
    driver = known(lambda: text_of(pynvml.nvmlSystemGetDriverVersion)) or ""
    sets_limits = known(lambda: pynvml._nvmlGetFunctionPointer("nvmlDeviceSetMemoryLimits_v1")) is not None
    refusals = {}
    for uuid in uuids if sets_limits else ():
        try:
            memory_limit(uuid, folder)
        except NvmlError as error:
            if error.code in _WITHOUT_LIMITS:
                refusals[uuid] = str(error)
    return LimitSupport(driver, sets_limits, refusals)


def memory_limit(uuid: str, folder: Path) -> tuple[int, int] | None:
    """The bytes of a card that a control group is guaranteed, and may have at most; None for no limit. ``folder`` is the group's.

    A group without a limit answers NOT_FOUND if the kernel counts, and NOT_SUPPORTED if the driver does. Raises NvmlError.
    """
    with translated(f"find card {uuid}"):
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    try:
        with translated(f"read the memory limit of {folder} on card {uuid}"):
            # Since pynvml 13.615.71.
            limits = pynvml.c_nvmlGetMemoryLimits_v1_t(os.fsencode(folder))
            pynvml.nvmlDeviceGetMemoryLimits_v1(handle, limits)
    except NvmlError as error:
        if error.code in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED):
            return None
        raise
    return None if limits.hardLimit == _NOT_KNOWN else (int(limits.softLimit), int(limits.hardLimit))


def shut_down() -> None:
    """Shut NVML down, for this user of it."""
    with contextlib.suppress(NvmlError), translated("shut NVML down"):  # there is nothing left to lose
        pynvml.nvmlShutdown()


def _find(index: int) -> tuple[Any, str]:
    """The handle and the UUID of a card, without which it is none that can be shared."""
    with translated(f"describe card {index}"):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = text(pynvml.nvmlDeviceGetUUID(handle))
    if not uuid:
        raise NvmlError(f"cannot describe card {index}: its UUID is empty")
    return handle, uuid


def _card(index: int, uuid: str, handle: Any) -> Card:
    # A name is nice to have: a card without one is shared.
    model = known(lambda: text_of(lambda: pynvml.nvmlDeviceGetName(handle))) or ""
    with translated(f"read the memory of card {index}, {model or 'of unknown model'}"):
        # Version 1: the only one that drivers before R510 have, and its total is the same.
        total = pynvml.nvmlDeviceGetMemoryInfo(handle).total
    if total in (0, _NOT_KNOWN):
        raise NvmlError(
            f"card {index} ({model}, {uuid}) does not report how much memory it has, as cards with unified memory do"
        )
    mig = known(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    return Card(index, uuid, model, total // _MIB, _numa(handle), bool(mig))


def _numa(handle: Any) -> int | None:
    """Drivers before R450 do not tell it."""
    words = known(lambda: list(pynvml.nvmlDeviceGetMemoryAffinity(handle, _AFFINITY_WORDS, _AFFINITY_NODE)))
    nodes = [64 * word + bit for word, bits in enumerate(words or ()) for bit in range(64) if bits >> bit & 1]
    return nodes[0] if len(nodes) == 1 else None


def initialise(path: str | None) -> None:
    """Load and initialise NVML: the library at ``path``, or the system's for None.

    Raises NoDriverError if there is no library or no driver under it. The caller must ``shut_down`` after it.
    """
    if path is not None:
        _load(path)
    where = path or "the system's NVML"
    with translated(f"initialise {where}"):
        pynvml.nvmlInit()


def _load(path: str) -> None:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise NoDriverError(f"cannot load the NVML library {path}: {error}; check --nvml-library") from error
    if not hasattr(library, "nvmlInitWithFlags"):
        raise NoDriverError(f"{path} is a library, but not NVML (no nvmlInitWithFlags); check --nvml-library")
    with pynvml.libLoadLock:
        pynvml.nvmlLib = library
        # Functions that were looked up before belong to another library.
        pynvml._nvmlGetFunctionPointer_cache.clear()


def _running(handle: Any, act: str) -> Iterator[tuple[int, int | None]]:
    """Pid and MiB of the rows of all three lists; only the first must be there."""
    with translated(act):
        rows = _list(handle, "Compute")
    for kind in ("Graphics", "MPSCompute"):
        rows += known(functools.partial(_list, handle, kind)) or []
    for row in rows:
        # pynvml turns "not known" into None; in the oldest rows it is still all ones.
        is_known = row.usedGpuMemory not in (None, _NOT_KNOWN)
        yield row.pid, row.usedGpuMemory // _MIB if is_known else None


def _list(handle: Any, kind: str) -> list[Any]:
    """A process list in the newest form that the driver has: of R510, of R450, or older."""
    for version in ("_v3", "_v2"):
        with contextlib.suppress(pynvml.NVMLError_FunctionNotFound):
            return list(getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses{version}")(handle))
    return _oldest_list(handle, f"nvmlDeviceGet{kind}RunningProcesses")


class _OldProcess(ctypes.Structure):
    """A row before R450, for which pynvml has no call any more; the fields are named as in the newer rows."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))  # type: ignore[mutable-override]  # ctypes' way


def _oldest_list(handle: Any, symbol: str) -> list[Any]:
    function = pynvml._nvmlGetFunctionPointer(symbol)
    count = ctypes.c_uint(0)
    code = function(handle, ctypes.byref(count), None)
    rows: ctypes.Array[_OldProcess] = (_OldProcess * 0)()
    for _ in range(_LIST_ATTEMPTS):
        if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            break
        # More than were counted: processes may start in between.
        count.value = count.value * 2 + 5
        rows = (_OldProcess * count.value)()
        code = function(handle, ctypes.byref(count), rows)
    pynvml._nvmlCheckReturn(code)
    return list(rows[: count.value])
