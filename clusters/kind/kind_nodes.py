"""The nodes of a cluster: created and deleted by kind, driven by pytest-kubernetes.

pytest-kubernetes' provider for kind is used: which verbs with which words, in which order. The rest is done
here in its place: it runs words through a shell and with this process's own environment (ours names another Docker and other
programs), it asks kubectl for readiness in whole seconds, and it lets ``kind delete`` open the user's kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_kubernetes.options import ClusterOptions
from pytest_kubernetes.providers.kind import KindManagerBase

from clusters.processes.tied import tied
from clusters.provider import ClusterError

# Against hangs only: on two cores a node takes half a minute.
_CREATE_SECONDS: Final = 600
_TAIL_LINES: Final = 40


class KindNodes(KindManagerBase):  # type: ignore[misc]  # the library has no types
    """kind for one cluster; ``config`` is its configuration file, which names it."""

    def __init__(self, config: Path, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        """Raises ClusterError if there is no program kind."""
        # Proxies are for people's programs; kind would hand them to every node.
        proxies = ("http_proxy", "https_proxy", "no_proxy")
        self._environment = {name: value for name, value in environment.items() if name.lower() not in proxies}
        self._environment["KUBECONFIG"] = str(kubeconfig)
        self._running: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        if shutil.which(self.get_binary_name(), path=environment.get("PATH")) is None:
            raise ClusterError("kind is not on PATH; `make docker` builds it and says where")
        # A file without a name would be the library's own choice of one.
        super().__init__(None, str(config), kubeconfig)

    async def create_nodes(self) -> None:
        """Create the cluster. Raises ClusterError with kind's error; cancelled, it ends kind and then returns."""
        options = ClusterOptions(cluster_timeout=_CREATE_SECONDS)
        await self._in_thread(lambda: self.create(options, options=["--wait", "0s"]))

    async def delete_nodes(self) -> None:
        """Delete the cluster, or what there is of it. Raises ClusterError."""
        self._ended.clear()
        await self._in_thread(self.delete)

    def ready(self, timeout: int = 20) -> bool:
        """The library asks before it creates (is one there already?) and after; the provider waits for the nodes itself."""
        return self.kubeconfig is not None and self.kubeconfig.exists()

    @property
    def _exec_path(self) -> Path:
        return Path(shutil.which(self.get_binary_name(), path=self._environment.get("PATH")) or "kind")

    def _exec(
        self, arguments: list[str], additional_env: Mapping[str, str] | None = None, timeout: int | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """As the library's, without a shell; kind dies with this process, and ``_abort`` ends it."""
        argv = tied([self._exec_path, *arguments])
        self._running = subprocess.Popen(
            argv,
            env={**self._environment, **(additional_env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self._ended.is_set():
            self._abort()
        try:
            out, _ = self._running.communicate(timeout=timeout or self._cluster_options.cluster_timeout)
        except subprocess.TimeoutExpired as error:
            self._abort()
            out, _ = self._running.communicate()
            raise ClusterError(f"kind {arguments[0]}: not done after {error.timeout:.0f} s: {_tail(out)}") from error
        if self._running.returncode:
            raise ClusterError(f"kind {' '.join(arguments[:2])} ended with {self._running.returncode}: {_tail(out)}")
        return subprocess.CompletedProcess(argv, 0, out)

    async def _in_thread(self, work: Callable[[], Any]) -> None:
        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; what it waits for can be ended.
            self._ended.set()
            self._abort()
            with contextlib.suppress(ClusterError):
                await working
            raise

    def _abort(self) -> None:
        if self._running is not None and self._running.returncode is None:
            self._running.terminate()


def _tail(out: bytes) -> str:
    """The end of what was printed; the rest is a log of steps that went well."""
    return "\n".join(out.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:])
