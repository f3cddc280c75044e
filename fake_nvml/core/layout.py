"""The state file byte by byte: the single source of offsets, for Python here and for a library in C.

All numbers are little-endian and naturally aligned, each record has a fixed size with room to grow (zeros), texts are
NUL-terminated UTF-8. Sizes, in bytes: header 512, then 64 cards of 1024, 1024 processes of 128, 256 events of 64,
64 faults of 128 and 256 limits of 512. The tables' offsets follow from that and are asserted below; a change of any of
them is a new VERSION.

Consistency: ``sequence`` is a seqlock. A writer holds ``flock`` (exclusive) on the file, makes ``sequence`` odd,
writes, makes it even. A reader copies what it needs between two equal even values. If a writer died in between,
the odd value stays; the next writer makes it even, and readers before that copy under a shared ``flock``.

Cards: a card stays in its slot (its record's number) for as long as it is there. A record with an empty ``uuid`` is a free
slot; ``card_count`` is one past the last slot in use. nvmlInit takes down which card is in which slot: NVML's index is the
place among the slots that hold a card at that moment, and stays until the last nvmlShutdown. So a card that comes later,
into a free slot or a new one, is seen after a new init. A card that goes (its slot is free, or holds another UUID) is lost to
programs that knew it: GPU_IS_LOST, as with ``state`` LOST; after a new init it is not listed, while one with ``state`` LOST keeps
its index and answers GPU_IS_LOST. A writer that puts a card into a slot sets ``first_event``, so that events of the slot's next
card never reach a listener of the one before.

Processes: a row with ``held`` belongs to a process that wrote it itself and holds a write lock (fcntl, not flock) on the byte
at offset SIZE + row of the file for as long as it uses the card. The kernel drops the lock when the process ends, however it
ends, so a row without it is free: readers pass over it, the next writer clears it. The kernel names the holder of the lock in the
reader's own pid namespace, as a real driver names host pids whatever container a process runs in: that number is the pid (0 for a
reader that cannot see the process), and the row's ``pid`` is only its own view. A row whose byte is locked is not for another
``held`` process, though it may be free.

Faults: a row is in force while ``used`` is 1 and ``count`` is not 0 (a writer sets ``used`` last and may take any other
row). It applies to a call when both hold:

* ``function`` names it: the C name (``nvmlDeviceGetMemoryInfo_v2``); a name without ``_v<number>`` at its end means every
  version of it too; a ``*`` at the end means every name that begins so (``nvmlInit*``, ``*``). nvmlErrorString never fails.
* ``card`` is the slot of the card that the call is about, or UNKNOWN32. About a card are the calls that take its handle and
  those that look it up (by index, UUID, serial number, PCI address). nvmlEventSetWait, nvmlInit and the others that name no
  card, and functions that no card answers anyway (NOT_SUPPORTED), meet rows with UNKNOWN32 only.

The first row that applies, and no other, is done: the call waits ``delay`` microseconds without any lock, then answers
``code``, or goes on as usual if ``code`` is 0. That is after the checks "is the library initialised" and "is this a handle
of ours" and before the card is asked, so the fault of a lost card comes before GPU_IS_LOST. nvmlInit meets its rows before
``init_return``. ``count`` UNKNOWN32 is for ever; any other number goes down by one with each call, in whichever process, and
at 0 ``used`` becomes 0. Counting needs a mapping that may be written: in one that may only be read a row applies for ever.
``code`` DOES_NOTHING (``returns``) is a success that leaves everything as it was; nvmlDeviceSetMemoryLimits alone can have it.

Limits: a row with ``used`` 1 limits what the processes of one cgroup hold of one card. A cgroup is the inode of its directory,
the same through every mount. It has its own row, else that of the nearest directory above in the same file system; each cgroup
is counted alone. The row of a directory that is gone stays until the next nvmlDeviceSetMemoryLimits drops it, which it does
not if the header has ``dead_limits``: then the next cgroup with that inode has it. Its ``path`` is as that call named the
directory, and empty if it is too long; such a row is never taken to be gone.
"""

# mypy: disable-error-code="mutable-override"
# (ctypes declares _fields_ mutable and wider than any structure has it.)
from __future__ import annotations

import ctypes
from typing import Final

MAGIC: Final = b"FAKENVML"
VERSION: Final = 5

CARDS: Final = 64
PROCESSES: Final = 1024
EVENTS: Final = 256
FAULTS: Final = 64
LIMITS: Final = 256
# Return codes of a record, one for each key of ``answers``.
REFUSALS: Final = 128

# Card.state
HEALTHY: Final = 0
LOST: Final = 1

# Fault.count of a fault that never wears off.
FOR_EVER: Final = 0xFFFFFFFF

# Header.limits: what enforces memory limits on this node; without any they are not supported.
LIMITS_DMEM: Final = 0
LIMITS_MISC: Final = 1
LIMITS_NONE: Final = 2

# Bits of Header.missing_files.
UVM_FILE: Final = 1

# Process.kind; 0 is a free row.
FREE: Final = 0
COMPUTE: Final = 1
GRAPHICS: Final = 2
MPS: Final = 3

# "Not known", as NVML writes it: memory of a process, and the MIG instances of an event of a whole card.
UNKNOWN64: Final = 0xFFFFFFFFFFFFFFFF
UNKNOWN32: Final = 0xFFFFFFFF

_u16, _u32 = ctypes.c_uint16, ctypes.c_uint32
_i32, _u64 = ctypes.c_int32, ctypes.c_uint64


class Header(ctypes.LittleEndianStructure):
    """Facts of the whole node. ``generation`` counts fills: a new box. ``next_event`` never goes back."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("version", _u32),
        ("size", _u32),
        ("sequence", _u64),
        ("generation", _u64),
        ("next_event", _u64),
        ("wake", _u32),  # changes with every write: what the library waits on (futex); a writer in C wakes it
        ("card_count", _u32),
        ("cuda", _u32),
        ("init_return", _u32),  # what nvmlInit answers; 0 is success
        ("driver", ctypes.c_char * 64),
        ("process_rows", _u32),  # process rows from this one on are free
        ("padding", _u32),
        ("refused", _u16 * REFUSALS),  # of the functions that are about no card
        ("missing_files", _u32),  # device files that containers on this node do not get
        ("limits", _u32),
        ("dead_limits", _u32),  # rows of directories that are gone stay
        ("padding_limits", _u32),
        ("context", _u64),  # bytes that a CUDA context takes of its card
        ("reserved", ctypes.c_char * 104),
    )


class Card(ctypes.LittleEndianStructure):
    """One card. Memory in bytes, temperature in degrees Celsius, power in milliwatts, utilisation in percent.

    ``memory_other`` is in use by no process that NVML would list; ``memory_reserved`` is the driver's own. ``numa`` -1:
    not known. ``mig_slices`` 0: the card cannot; otherwise the most slices. ``first_event`` is the header's ``next_event``
    when the card came into its slot. An empty ``uuid``: no card. ``memory_total`` 0: not known, as with memory that the
    card shares with the processor. Clocks in MHz, ``pcie_sent`` and ``pcie_received`` in KB/s, ``sampling_period`` in
    microseconds; ``idle_…`` holds while no kernel runs (``utilization`` 0), the field without it while one does.

    ``nvlinks`` and ``nvswitches`` are numbers: each link leads to a switch. Without a switch they lead to the cards of the same
    model in the slots around it, of which ``nvlink_peers`` are linked to each other. ``pci_root`` is the bus of the PCIe root that
    the card is below.

    ``refused``: for each key of ``answers.KEYS``, at its place there, 0 or the code that the card answers it with. It comes
    after faults and GPU_IS_LOST.
    """

    _fields_ = (
        ("uuid", ctypes.c_char * 96),
        ("name", ctypes.c_char * 96),
        ("serial", ctypes.c_char * 32),
        ("state", _u32),
        ("minor", _u32),
        ("memory_total", _u64),
        ("memory_reserved", _u64),
        ("memory_other", _u64),
        ("pci_domain", _u32),
        ("pci_bus", _u32),
        ("pci_device", _u32),
        ("pci_device_id", _u32),
        ("pci_subsystem_id", _u32),
        ("numa", _i32),
        ("compute_major", _u32),
        ("compute_minor", _u32),
        ("brand", _u32),
        ("nvlinks", _u32),
        ("utilization", _u32),
        ("memory_utilization", _u32),
        ("temperature", _u32),
        ("power", _u32),
        ("power_limit", _u32),
        ("mig_slices", _u32),
        ("mig_mode", _u32),
        ("mig_pending", _u32),
        ("ecc_supported", _u32),
        ("ecc_mode", _u32),
        ("ecc_corrected", _u64),
        ("ecc_uncorrected", _u64),
        ("recovery_action", _u32),
        ("padding", _u32),
        ("first_event", _u64),
        ("events", _u64),  # the event types that it reports
        ("architecture", _u32),
        ("compute_mode", _u32),
        ("persistence", _u32),
        ("display_active", _u32),
        ("display_mode", _u32),
        ("busy_state", _u32),  # performance states
        ("idle_state", _u32),
        ("fan", _u32),  # percent
        ("fans", _u32),
        ("encoder", _u32),
        ("decoder", _u32),
        ("sampling_period", _u32),
        ("clock_graphics", _u32),
        ("clock_sm", _u32),
        ("clock_memory", _u32),
        ("clock_video", _u32),
        ("idle_graphics", _u32),
        ("idle_sm", _u32),
        ("idle_memory", _u32),
        ("idle_video", _u32),
        ("pcie_generation", _u32),
        ("idle_pcie_generation", _u32),
        ("pcie_width", _u32),
        ("pcie_sent", _u32),
        ("pcie_received", _u32),
        ("ecc_pending", _u32),
        ("refused", _u16 * REFUSALS),
        ("nvswitches", _u32),
        ("nvlink_peers", _u32),
        ("pci_root", _u32),
        ("reserved", ctypes.c_char * 276),
    )


class Process(ctypes.LittleEndianStructure):
    """One process on one card; ``memory`` in bytes. ``kind`` is written last: a row is complete or free.

    ``held`` 1: a process that wrote the row itself, perhaps from a container, see the module; 0: there until it is removed.
    ``cgroup``: the inode of its cgroup, 0 if that is not known; ``managed``: bytes of ``memory`` that no limit counts.
    """

    _fields_ = (
        ("kind", _u32),
        ("card", _u32),
        ("pid", _u32),
        ("held", _u32),
        ("memory", _u64),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("name", ctypes.c_char * 64),
        ("cgroup", _u64),
        ("managed", _u64),
        ("reserved", ctypes.c_char * 16),
    )


class Event(ctypes.LittleEndianStructure):
    """Event number n lies in row n % EVENTS. ``type`` is a bit of nvmlEventType, ``data`` the Xid."""

    _fields_ = (
        ("number", _u64),
        ("type", _u64),
        ("data", _u64),
        ("card", _u32),
        ("gpu_instance", _u32),
        ("compute_instance", _u32),
        ("padding", _u32),
        ("reserved", ctypes.c_char * 24),
    )


class Fault(ctypes.LittleEndianStructure):
    """Calls that must fail or be slow, see the module: ``function`` on ``card`` (UNKNOWN32: any) answers ``code`` after
    ``delay`` microseconds, ``count`` times.
    """

    _fields_ = (
        ("function", ctypes.c_char * 64),
        ("used", _u32),
        ("card", _u32),
        ("code", _u32),
        ("count", _u32),
        ("delay", _u64),
        ("reserved", ctypes.c_char * 40),
    )


class Limit(ctypes.LittleEndianStructure):
    """A limit of one cgroup on one card, in bytes; ``hard`` UNKNOWN64: none."""

    _fields_ = (
        ("used", _u32),
        ("card", _u32),
        ("cgroup", _u64),
        ("soft", _u64),
        ("hard", _u64),
        ("path", ctypes.c_char * 448),
        ("reserved", ctypes.c_char * 32),
    )


class StateFile(ctypes.LittleEndianStructure):
    """The whole file."""

    _fields_ = (
        ("header", Header),
        ("cards", Card * CARDS),
        ("processes", Process * PROCESSES),
        ("events", Event * EVENTS),
        ("faults", Fault * FAULTS),
        ("limits", Limit * LIMITS),
    )


SIZE: Final = ctypes.sizeof(StateFile)
SEQUENCE_OFFSET: Final = Header.sequence.offset

assert (ctypes.sizeof(Header), ctypes.sizeof(Card), ctypes.sizeof(Process)) == (512, 1024, 128)
assert (ctypes.sizeof(Event), ctypes.sizeof(Fault), ctypes.sizeof(Limit)) == (64, 128, 512)
assert SIZE == 512 + CARDS * 1024 + PROCESSES * 128 + EVENTS * 64 + FAULTS * 128 + LIMITS * 512


def as_text(field: bytes) -> str:
    """A text of a record; a driver or a program may have written bytes that are no UTF-8."""
    return field.decode(errors="replace")


def blank() -> StateFile:
    """A file's content without a box."""
    content = StateFile()
    content.header.magic = MAGIC
    content.header.version = VERSION
    content.header.size = SIZE
    return content
