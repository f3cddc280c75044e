"""From a process on a card to its pod: NVML says pids, the kernel says in which control group each of them is.

Both are of the host. A container sees the host's processes only with ``hostPID: true``; without it NVML's pids mean
nothing here, which is said once instead of calling every process a stranger's in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from gpushare.deviceplugin.cgroups import containers_of
from gpushare.deviceplugin.usage import ProcessUse
from gpushare.nvml.api import Process

_LOG = logging.getLogger(__name__)


class ProcessOwners:
    """Looks pids up below ``proc``, the host's ``/proc``."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._said = False

    def uses(self, index: int, processes: Iterable[Process], pods: Collection[str]) -> list[ProcessUse]:
        """The processes of a card with their pods' uids; ``pods`` are the uids of this node's."""
        return [ProcessUse(index, self._pod_of(process.pid, pods), process.mib) for process in processes]

    def warn_if_blind(self, pids: Sequence[int]) -> bool:
        """Say once that none of these processes can be seen here, if it is so."""
        blind = bool(pids) and not any((self._proc / str(pid)).exists() for pid in pids)
        if blind and not self._said:
            _LOG.warning(
                "none of the processes on the cards is visible proc=%s processes=%d: use is counted as nobody's; the "
                "plugin needs hostPID: true (or --proc-root, where the host's /proc is mounted elsewhere)",
                self._proc, len(pids),
            )  # fmt: skip
            self._said = True
        return blind

    def _pod_of(self, pid: int, pods: Collection[str]) -> str | None:
        """The uid of the pod that the process is of; None for one of no pod of ours, or one that is gone."""
        try:
            text = (self._proc / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return None
        uids = [group.pod_uid for group in containers_of(text)]
        return next((uid for uid in uids if uid in pods), None)
