"""containerd above NVIDIA's runtime, asked as a kubelet asks it, on simulated cards and in namespaces of its own.

``python -m tests.clusters.kubelet.containerd_node`` prints how long NVIDIA's hook takes at the start of a pod's container.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import grpc
import grpc.aio

from clusters.controlplane.binaries import containerd
from clusters.kind.offline.node_image import preload
from clusters.kind.offline.oci_archive import Image, write_layer
from clusters.kubelet.proto.grpc_services import stub_of
from clusters.provider import LimitSpec, NodeSpec
from tests.clusters.kubelet.nvidia_runtime import (
    LIMIT,
    REQUEST,
    Machine,
    Outcome,
    hook_error,
    kept,
    new_name,
    print_added,
    programs_of,
)

CRI: Final = grpc.protos("tests/clusters/kubelet/cri.proto")
_ROUNDS: Final = 50
_SECONDS: Final = 60.0
_PROGRAM: Final = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
_CONFIG: Final = """version = 3
root = '{folder}/root'
state = '{folder}/state'
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.internal.v1.opt']
[grpc]
address = '{socket}'
[ttrpc]
address = '{socket}.ttrpc'
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'native'
pinned_images.sandbox = '{image}'
[plugins.'io.containerd.cri.v1.runtime']
cdi_spec_dirs = ['{machine.devices}']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
nvidia = {{ runtime_type = 'io.containerd.runc.v2', options.BinaryName = '{folder}/nvidia-container-runtime' }}
runc = {{ runtime_type = 'io.containerd.runc.v2', options.BinaryName = '{folder}/runc' }}
"""
# On a machine with both versions of cgroups, those of version 2 have no shares of a processor, which containerd wants for a pod.
_RUNTIME: Final = """#!/bin/sh
if [ -f config.json ]; then sed -i 's/"shares":2//' config.json; fi
exec "{program}" "$@"
"""
# The shell is the first process of its namespace: all others end with it. It ends with its input, or with containerd.
_INSIDE: Final = """
mount --bind "$1" /sys/fs/cgroup
mount -t tmpfs none /run
shift
exec 3<&0
"$@" 3<&- &
program=$!
{ read -r end <&3 || kill -9 $program; } &
wait $program
"""
_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True, slots=True)
class Started:
    """A container after its start."""

    outcome: Outcome
    variables: Mapping[str, str] = field(default_factory=dict)
    """As its process has them."""
    name: str = ""
    seconds: float = 0.0


class Containerd:
    """A containerd of this machine, with an image for each of these environments; ``running`` starts it."""

    def __init__(self, machine: Machine, environments: Iterable[Mapping[str, str]] = ()) -> None:
        self.machine = machine
        self.cgroup = machine.tree / new_name()
        self.socket = machine.folder / "c.sock"
        self._folder = machine.folder / "containerd"
        self._programs = programs_of(containerd())
        every = [dict(one) for one in ({}, *environments)]
        self._environments = [one for number, one in enumerate(every) if one not in every[:number]]

    @contextmanager
    def running(self) -> Iterator[Containerd]:
        """Start it; at the end, nothing of it and its containers is left."""
        self._folder.mkdir()
        self._store_images()
        values = {"folder": self._folder, "socket": self.socket, "machine": self.machine, "image": self.image({})}
        config, log = self._folder / "config.toml", self._folder / "log"
        config.write_text(_CONFIG.format_map(values))
        for name in ("nvidia-container-runtime", "runc"):
            (self._folder / name).write_text(_RUNTIME.format(program=self.machine.programs[name]))
            (self._folder / name).chmod(0o755)
        program = self._programs["containerd"]
        argv = [*_NAMESPACES, "sh", "-euc", _INSIDE, "sh", str(self.machine.tree), str(program), f"--config={config}"]
        variables = {**self.machine.variables, "PATH": f"{program.parent}:{self.machine.variables['PATH']}"}
        self.cgroup.mkdir()
        try:
            with (
                log.open("wb") as out,
                subprocess.Popen(
                    argv, env=variables, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
                ) as process,
            ):
                preload.wait_until_booted(process, log)
                yield self
        finally:
            for group in (*filter(Path.is_dir, self.cgroup.iterdir()), self.cgroup):
                group.rmdir()

    @asynccontextmanager
    async def pod(self, runtime: str = "nvidia") -> AsyncIterator[Pod]:
        """A pod of the node's network; its containers run until containerd ends."""
        async with grpc.aio.insecure_channel(f"unix:{self.socket}") as channel:
            stub = stub_of(channel, CRI.DESCRIPTOR.services_by_name["RuntimeService"])
            name, network = new_name(), {"namespace_options": {"network": "NODE"}}
            config = {
                "metadata": {"name": name, "uid": name, "namespace": "default"},
                # Else it reads the machine's resolv.conf, which may be below /run.
                "dns_config": {"servers": ["127.0.0.1"]},
                "linux": {"cgroup_parent": f"/{self.cgroup.name}", "security_context": network},
            }
            request = CRI.RunPodSandboxRequest(config=config, runtime_handler=runtime)
            made = await stub.RunPodSandbox(request, timeout=_SECONDS)
            yield Pod(self, stub, {"pod_sandbox_id": made.pod_sandbox_id, "sandbox_config": config})

    def image(self, environment: Mapping[str, str]) -> str:
        """The name of the image with these variables."""
        return f"localhost/program:{self._environments.index(dict(environment))}"

    def _store_images(self) -> None:
        """All have one program, which waits."""
        content = self._folder / "content"
        content.mkdir()
        compiler: list[str | Path] = ["cc", "-static", "-Os", "-s", "-x", "c", "-o", content / "program", "-"]
        subprocess.run(compiler, input=_PROGRAM, text=True, check=True)
        layers = (write_layer(content, self._folder / "layer.tar"),)
        images = [Image((self.image(one),), layers, ("/program",), one) for one in self._environments]
        preload.store(images, self._programs["containerd"], self._programs["ctr"], self._folder, os.environ)


@dataclass(frozen=True, slots=True)
class Pod:
    """A running pod."""

    _node: Containerd
    _stub: SimpleNamespace
    _names: Mapping[str, Any]

    async def start(
        self, environment: Sequence[str], image: Mapping[str, str] = MappingProxyType({}), devices: Sequence[str] = ()
    ) -> Started:
        """Create a container and start it; ``environment`` is the kubelet's list, as ``NAME=value``."""
        pairs = [text.split("=", 1) for text in environment]
        config = {
            "metadata": {"name": new_name()},
            "image": {"image": self._node.image(image)},
            "envs": [{"key": name, "value": value} for name, value in pairs],
            "CDI_devices": [{"name": name} for name in devices],
        }
        try:
            request = CRI.CreateContainerRequest(config=config, **self._names)
            name = (await self._stub.CreateContainer(request, timeout=_SECONDS)).container_id
            begun = time.monotonic()
            await self._stub.StartContainer(CRI.StartContainerRequest(container_id=name), timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            return Started(Outcome((), hook_error(error.details() or "")))
        seconds = time.monotonic() - begun
        group = self._node.cgroup / name
        process = (group / "cgroup.procs").read_text().split()[0]
        texts = Path("/proc", process, "environ").read_text().rstrip("\0").split("\0")
        limits = kept(self._node.machine.state, group.stat().st_ino)
        return Started(Outcome(limits), dict(text.split("=", 1) for text in texts), name, seconds)

    async def stop(self, container: Started) -> None:
        """Kill a container's process, as before it is made again."""
        await self._stub.StopContainer(CRI.StopContainerRequest(container_id=container.name), timeout=_SECONDS)


async def main() -> None:
    """Print the median time of a start: without the hook, with it, and with a limit."""
    card, both = ["NVIDIA_VISIBLE_DEVICES=0"], [f"{REQUEST}=0", f"{LIMIT}=4096"]
    async with AsyncExitStack() as stack:
        pods = []
        for has in (False, True):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            machine = Machine(folder, NodeSpec("n", "t4x2", "615", memory_limits=LimitSpec(hook=has)))
            node = stack.enter_context(Containerd(machine).running())
            pods.append(await stack.enter_async_context(node.pod()))
        bare, whole = pods
        kinds = {"without the hook": (bare, card), "with it": (whole, card), "with a limit": (whole, [*card, *both])}
        spent: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(_ROUNDS):
            for name, (pod, environment) in kinds.items():
                container = await pod.start(environment)
                await pod.stop(container)
                spent[name].append(1000 * container.seconds)
    print_added(spent)


if __name__ == "__main__":
    asyncio.run(main())
