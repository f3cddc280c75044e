"""From a process on a card to its pod: NVML has pids, and the kernel the control group of each.

Both are of the host. A container sees the host's processes only with ``hostPID: true``. Without it NVML shows no process
at all, or pids that mean nothing here; then no use is known, which is not 0, and a line is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from gpushare.deviceplugin.core.cgroups import containers_of
from gpushare.deviceplugin.core.usage import ProcessUse
from gpushare.nvml.api import Process

_LOG = logging.getLogger(__name__)


class ProcessOwners:
    """Looks pids up below ``proc``, the host's ``/proc``."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._reported = False

    def uses(self, index: int, processes: Iterable[Process], pods: Collection[str]) -> list[ProcessUse]:
        """The processes of a card with their pods' uids; ``pods`` are the uids of this node's."""
        return [ProcessUse(index, self._pod_of(process.pid, pods), process.mib) for process in processes]

    def is_blind(self, pids: Sequence[int]) -> bool:
        """Are the host's processes invisible, those with these pids among them? Said once."""
        visible = any((self._proc / str(pid)).exists() for pid in pids)
        blind = not visible and (bool(pids) or self._sees_itself_only())
        if blind and not self._reported:
            _LOG.warning(
                "the host's processes are not visible, so no pod's use of the cards is known proc=%s processes=%d: the "
                "plugin needs hostPID: true (or --proc-root, where the host's /proc is mounted elsewhere)",
                self._proc, len(pids),
            )  # fmt: skip
            self._reported = True
        return blind

    def _sees_itself_only(self) -> bool:
        """Is the first process of this /proc in our own container? The host's is never in a container."""
        try:
            first, own = ((self._proc / name / "cgroup").read_text(errors="replace") for name in ("1", "self"))
        except OSError:
            return False
        return first == own

    def _pod_of(self, pid: int, pods: Collection[str]) -> str | None:
        """The uid of the pod that the process is of; None for one of no pod of ours, or one that is gone."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return None
        uids = [group.pod_uid for group in containers_of(text)]
        return next((uid for uid in uids if uid in pods), None)
