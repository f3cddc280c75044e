"""The state of a node's simulated cards: what they are and what happens on them.

One file, shared by all programs on the node: one that simulates containers adds their processes here, and each NVML call
in any process answers from it. Memory in MiB (1024² bytes). A card's used memory is that of its processes, plus what
``set_value("memory-used")`` added; what a driver from R510 on keeps for itself (``reserved_mib``) counts apart, as
nvidia-smi prints it.

Each method is one step: it is checked whole, then happens whole, and two together happen one after the other. All raise
StateError, and change nothing, for a card that is not there.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fake_nvml import sysfs
from fake_nvml.core import call_faults, card_changes
from fake_nvml.core.answers import PLACES, keys_of_field
from fake_nvml.core.box_cards import BoxCard
from fake_nvml.core.call_faults import CallFault
from fake_nvml.core.card_state import CardState, card_states
from fake_nvml.core.fill import MIB, fill
from fake_nvml.core.layout import COMPUTE, FREE, HEALTHY, LOST, UNKNOWN32, UNKNOWN64, Process, StateFile, as_text, blank
from fake_nvml.core.limits import (
    LimitOptions,
    MemoryLimit,
    drop_limits,
    free_below_limit,
    memory_limits,
    set_limit,
    set_options,
)
from fake_nvml.core.records import device_files, find_process, free_row, other_bytes, set_missing, slot_of
from fake_nvml.core.returns import Code
from fake_nvml.core.values import PENDING, parse_value
from fake_nvml.fake_nvml_errors import CardFullError, StateError
from fake_nvml.mapping import MappedState, create_file

if TYPE_CHECKING:  # programs that only read the state may lack PyYAML
    from fake_nvml.box import Box

# As long as a record has room for, in bytes, with the NUL.
_NAME_BYTES = Process.name.size - 1


class State:
    """One open state file. Threads may share it; ``close`` it, or use it as a context. ``mapped`` is its memory."""

    def __init__(self, mapped: MappedState) -> None:
        self.mapped = mapped
        self.path = mapped.path

    @classmethod
    def create(cls, path: Path, box: Box) -> Self:
        """Make a state file that shows ``box``, idle; if one is there already, it shows the new box from now on.

        Programs that run on it keep running; the cards they knew are lost for them until they call nvmlInit again.
        Raises StateError if ``path`` cannot be written or holds something else.
        """
        content = blank()
        cls._fill(content, box)
        sysfs.prepare(sysfs.folder_of(path))
        written = create_file(path, content)
        state = cls.open(path)
        try:
            with state._changing_cards(restarted=True) as existing:  # noqa: SLF001  # one of this class
                if not written:
                    cls._fill(existing, box)
        except BaseException:
            state.close()
            raise
        return state

    @staticmethod
    def _fill(content: StateFile, box: Box) -> None:
        fill(content, box.driver, box.cards, box.refused)
        set_options(content, box.limits)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a state file, for reading only if its mount allows no more. Raises StateError if there is none."""
        return cls(MappedState.open(path))

    def close(self) -> None:
        """Let go of the file; the file stays. May be called again."""
        self.mapped.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _changing_cards(self, *, restarted: bool = False) -> Iterator[StateFile]:
        """As ``writing``; the folder that imitates a kernel (``sysfs``) changes with it, all of it after a restart."""
        folder = sysfs.folder_of(self.path)
        if not folder.is_dir():
            raise StateError(
                f"there is no {folder} beside the state file, by which programs see that a card came or went: "
                "change cards where both are mounted, or run fake-nvml init"
            )
        sysfs.prepare(folder)
        with self.mapped.writing() as content:
            yield content
            sysfs.publish(folder, content, restarted=restarted)

    def read(self) -> StateFile:
        """A consistent copy of everything, as the records of ``layout``."""
        return self.mapped.read()

    def driver(self) -> str:
        """The driver's version."""
        return as_text(self.read().header.driver)

    def cards(self) -> list[CardState]:
        """All cards in NVML's order, lost ones too."""
        return card_states(self.read())

    def add_process(self, uuid: str, pid: int, mib: int | None, name: str, *, cgroup: Path | None = None) -> None:
        """A process uses ``mib`` on a card from now on, None for unknown; one of that pid on that card is replaced.

        It obeys the limit of ``cgroup``, the directory of its cgroup. Raises CardFullError if the card, or that limit, has
        less free, StateError for a pid that can be none and for a directory that cannot be opened.
        """
        if not 0 < pid < 2**31 or (mib or 0) < 0:
            raise StateError(f"process {pid} with {mib} MiB: a pid is from 1 on, memory from 0 on")
        label = name.encode(errors="replace")[:_NAME_BYTES]
        chain = [0] if cgroup is None else _chain(cgroup)
        with self.mapped.writing() as content:
            slot = slot_of(content, uuid)
            row = find_process(content, slot, pid)
            old = row.memory if row is not None and row.memory != UNKNOWN64 else 0
            free = free_below_limit(content, slot, chain) + old
            if (mib or 0) * MIB > free:
                raise CardFullError(f"card {uuid} has {free // MIB} MiB free; process {pid} asks for {mib} MiB")
            if row is None:
                row = free_row(content)
            row.kind = FREE
            row.card, row.pid, row.held, row.memory = slot, pid, 0, UNKNOWN64 if mib is None else mib * MIB
            row.gpu_instance = row.compute_instance = UNKNOWN32
            row.name, row.cgroup, row.managed = label, chain[0], 0
            row.kind = COMPUTE

    def remove_process(self, uuid: str, pid: int) -> bool:
        """A process is gone; answers whether it was there."""
        with self.mapped.writing() as content:
            row = find_process(content, slot_of(content, uuid), pid)
            if row is not None:
                row.kind = FREE
            return row is not None

    def set_value(self, uuid: str, key: str, value: str) -> None:
        """Change one value of a card (``values.KEYS``, or ``uuid``), which its driver answers from then on.

        Raises StateError if key or value make no sense.
        """
        if key == "uuid":
            self.change_uuid(uuid, value)
            return
        with self.mapped.writing() as content:
            slot = slot_of(content, uuid)
            card = content.cards[slot]
            field, number = parse_value(key, value, card)
            if field == "memory_other":
                number = other_bytes(content, slot, number)
            for changed in (field, PENDING.get(field, field)):
                setattr(card, changed, number)
            for answered in keys_of_field(field):
                card.refused[PLACES[answered]] = Code.SUCCESS

    def post_xid(self, uuid: str, xid: int, *, lose: bool = False) -> None:
        """The driver reports an Xid on a whole card; each event set that listens there gets it once.

        What it leaves on the card is in ``xids.txt``. With ``lose`` the card answers nothing from then on.
        """
        if not 0 < xid < 2**32:
            raise StateError(f"Xid {xid}: Xids are numbers from 1 on")
        with self.mapped.writing() as content:
            slot = slot_of(content, uuid)
            card_changes.report_xid(content, slot, xid)
            if lose:
                content.cards[slot].state = LOST

    def lose(self, uuid: str) -> None:
        """The card answers GPU_IS_LOST to everything; it keeps its index."""
        with self.mapped.writing() as content:
            content.cards[slot_of(content, uuid)].state = LOST

    def repair(self, uuid: str) -> None:
        """The card answers again, and the driver's advice for it (recovery action) is none."""
        with self.mapped.writing() as content:
            card = content.cards[slot_of(content, uuid)]
            card.state, card.recovery_action = HEALTHY, 0

    def add_card(self, model: str, *, uuid: str | None = None, numa: int | None = None) -> str:
        """A card of the catalogue comes, into the lowest free slot; answers its UUID, a new one if none is given.

        Raises CatalogueError for a model that is not there or that the driver does not know.
        """
        from fake_nvml.box import model as find_model

        found = find_model(model)
        with self._changing_cards() as content:
            known = card_changes.new_uuid(content) if uuid is None else uuid
            card_changes.checked_uuid(content, known)
            serial = card_changes.made_serial(known) if found.data_center else ""
            card_changes.put_card(content, card_changes.free_slot(content), BoxCard(found, known, serial, numa))
        return known

    def remove_card(self, uuid: str) -> None:
        """The card is pulled, with its processes: lost for programs that know it, not listed after a new nvmlInit."""
        with self._changing_cards() as content:
            card_changes.take_card(content, slot_of(content, uuid))

    def change_uuid(self, uuid: str, new: str | None = None) -> str:
        """Another card of the model is in this one's place, idle and healthy, as after a cloud machine's stop and start.

        Answers the new UUID, made up if none is given.
        """
        with self._changing_cards() as content:
            slot = slot_of(content, uuid)
            known = card_changes.new_uuid(content) if new is None else new
            card_changes.swap_card(content, slot, card_changes.checked_uuid(content, known))
        return known

    def reboot(self, *, still_lost: bool = False) -> None:
        """Reboot the node: processes, faults, errors and advice are gone; lost cards are back unless ``still_lost``."""
        with self._changing_cards(restarted=True) as content:
            card_changes.reboot(content, still_lost=still_lost)

    def set_init_return(self, code: int) -> None:
        """Set the answer of nvmlInit from now on, 0 for success (``returns.Code``): 9 is "no driver loaded"."""
        if not 0 <= code < 2**31:
            raise StateError(f"return codes are numbers from 0 on, not {code}")
        with self._changing_cards() as content:
            content.header.init_return = code

    def set_device_file(self, name: str, *, missing: bool) -> None:
        """Let containers of this node lack a device file (``nvidia-uvm``): cuInit answers UNKNOWN there, NVML works.

        Raises StateError for a file that cannot be missing.
        """
        with self.mapped.writing() as content:
            set_missing(content, name, missing=missing)

    def device_files(self, uuids: Collection[str]) -> list[str]:
        """The names of NVIDIA's files in the /dev of a container that is given these cards; none without a card."""
        return device_files(self.read(), uuids)

    def add_fault(
        self, function: str, *, card: str | None = None, code: int = 0, seconds: float = 0, count: int | None = None
    ) -> None:
        """Calls of a C function (``nvmlDeviceGetMemoryInfo``, any version of it; ``nvmlDeviceGet*``) fail or are slow.

        ``card`` is a UUID, None for any; the call waits ``seconds``, then answers ``code``, or goes on if that is 0;
        ``count`` calls, None for ever. A fault of the same function and card is replaced. Raises StateError for an
        unknown function and for nonsensical numbers.
        """
        with self.mapped.writing() as content:
            call_faults.add_fault(content, CallFault(function, card, code, seconds, count))

    def faults(self) -> list[CallFault]:
        """All faults in force; if two apply to a call, the first happens."""
        return call_faults.call_faults(self.read())

    def clear_faults(self) -> int:
        """No call is slow or fails any more; answers how many faults there were."""
        with self.mapped.writing() as content:
            return call_faults.clear_faults(content)

    def set_limit_options(self, options: LimitOptions) -> None:
        """The node limits memory so from now on; limits that are there stay."""
        with self.mapped.writing() as content:
            set_options(content, options)

    def set_limit(self, uuid: str, cgroup: Path, soft: int, hard: int | None) -> None:
        """Limit what the processes of a cgroup, by its directory, hold of a card: in bytes, ``hard`` None for no limit.

        Raises StateError as a driver refuses it, and for a directory that cannot be opened.
        """
        inode, path = _chain(cgroup)[0], os.fsencode(cgroup.resolve())
        with self.mapped.writing() as content:
            set_limit(content, slot_of(content, uuid), inode, path, soft, hard)

    def limits(self) -> list[MemoryLimit]:
        """All limits of memory, by card."""
        return memory_limits(self.read())

    def clear_limits(self, *, dead: bool = False) -> int:
        """No limit is left, as after the driver was loaded again; with ``dead``, none of a directory that is gone,
        if this node does not keep them.

        Answers how many there were.
        """
        with self.mapped.writing() as content:
            keeps = content.header.dead_limits
            gone = [] if keeps else [one.cgroup for one in memory_limits(content) if one.path and _is_gone(one)]
            return drop_limits(content, gone if dead else None)


def _chain(directory: Path) -> list[int]:
    """The inodes of a directory and of those above it in its file system. Raises StateError if it is none."""
    try:
        found = [part.stat() for part in (directory.resolve(strict=True), *directory.resolve().parents)]
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise StateError(f"{directory} is no directory of a cgroup: {error.strerror}") from error
    return [status.st_ino for status in found if status.st_dev == found[0].st_dev]


def _is_gone(limit: MemoryLimit) -> bool:
    try:
        return Path(limit.path).stat().st_ino != limit.cgroup
    except OSError:
        return True
