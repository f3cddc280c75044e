"""kube-scheduler's processes, and whether it is healthy: by the node's /proc and its own /healthz."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gpushare.setup.core.static_pod import SchedulerPod

# A process: its number and its start, as a number may be given again.
Process = tuple[int, str]
_SCHEDULER: Final = "kube-scheduler"
_KUBELET: Final = "kubelet"
LOOK_SECONDS: Final = 0.5
_ANSWER_SECONDS: Final = 2.0


def sees_node(root: Path) -> bool:
    """Are the node's processes seen from here? kube-scheduler may be down, but then the kubelet that starts it again is there."""
    return bool(processes(root) or processes(root, _KUBELET))


def processes(root: Path, program: str = _SCHEDULER) -> dict[Process, tuple[str, ...]]:
    """The command lines of all kube-schedulers of the node, or of another program."""
    found = {}
    for folder in (root / "proc").glob("[0-9]*"):
        try:
            words = tuple((folder / "cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
            if Path(words[0]).name == program:
                found[int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()[19]] = words
        except (OSError, IndexError):
            # It has ended.
            continue
    return found


def is_restarted(
    root: Path,
    pod: SchedulerPod,
    before: Mapping[Process, object],
    is_right: Callable[[tuple[str, ...]], bool],
    seconds: float,
) -> bool:
    """Wait until a kube-scheduler that is not among ``before`` is healthy, and its command line is right."""
    deadline = time.monotonic() + seconds
    healthy: set[Process] = set()
    while time.monotonic() < deadline:
        new = {one for one, words in processes(root).items() if one not in before and is_right(words)}
        if new & healthy:
            return True
        # One that cannot read its file ends soon, so it has to be seen twice.
        healthy = new if new and _is_healthy(*pod.probe) else set()
        time.sleep(LOOK_SECONDS)
    return False


def _is_healthy(scheme: str, port: int) -> bool:
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS, context=_any_certificate())
        if scheme == "https"
        else http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    )
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _any_certificate() -> ssl.SSLContext:
    """kube-scheduler signs its own; nothing secret is sent, and loopback leads to this node."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
