"""NVIDIA's container runtime, its hook, and runc, on simulated cards and in a private tree of mounts.

``python -m tests.clusters.kubelet.nvidia_runtime`` prints how long the hook takes at the start of a container.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import Module, cached, container_toolkit
from clusters.provider import LimitSpec, NodeSpec
from clusters.simulated_node import new_cards
from fake_nvml.native.build import CUDA_LIBRARY, LIBRARY, library_folder
from fake_nvml.state import State

REQUEST, LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"
Limits = tuple[tuple[int, int, int | None], ...]
_ROUNDS: Final = 100
_MOUNTS: Final = Path("/sys/fs/cgroup")
_CONFIG: Final = """
[nvidia-container-cli]
root = "{folder}/driver"
[nvidia-container-runtime]
mode = "{mode}"
runtimes = ["{runc}"]
[nvidia-container-runtime.modes.jit-cdi]
nvcdi-disable-hooks = {disabled}
[nvidia-container-runtime.modes.cdi]
spec-dirs = ["{folder}/cdi"]
default-kind = "{kind}"
[nvidia-ctk]
path = "{nvidia-ctk}"
[nvidia-cdi-hook]
path = "{nvidia-cdi-hook}"
"""
_HOOK_FAILED: Final = re.compile(
    r"error running .*?hook #0: .*?exit status (\d+), stdout: .*?, stderr: (.*)", re.DOTALL
)
_LOGGED: Final = re.compile(r'level=error msg=("(?:[^"\\]|\\.)*"|\S+)')
_PROGRAM: Final = re.compile(r"\S*nvidia-(?:ctk|cdi-hook): ")
_numbers = itertools.count()


class NotRunnableError(Exception):
    """The programs cannot run on this machine; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a creation: the limits as (card, soft MiB, hard MiB), and the exit code and error of its hook, if it failed."""

    limits: Limits = ()
    error: str = ""


def kept(state: State, cgroup: int) -> Limits:
    """The limits of the directory with this inode."""
    index = {card.uuid: card.index for card in state.cards()}
    rows = [row for row in state.limits() if row.cgroup == cgroup]
    return tuple((index[row.card], row.soft >> 20, None if row.hard is None else row.hard >> 20) for row in rows)


def hook_error(message: str) -> str:
    """``CODE: ERROR`` of a hook that failed, in a runtime's message; the whole message if it is about something else."""
    match = _HOOK_FAILED.search(message)
    return f"{match[1]}: {_error(match[2])}" if match else message


def _error(log: str) -> str:
    """The last error in a log, else its last line."""
    found = _LOGGED.findall(log)
    if not found:
        return _PROGRAM.sub("", log.strip().rpartition("\n")[2])
    return str(json.loads(found[-1])) if found[-1].startswith('"') else str(found[-1])


def programs_of(module: Module) -> Mapping[str, Path]:
    """The built programs of a module. Raises NotRunnableError if one is missing."""
    found = cached(module, os.environ)
    if missing := sorted(set(module.packages) - set(found)):
        raise NotRunnableError(f"no {', '.join(missing)}: `make control-plane TOOLKIT=1` builds them (needs Go and cc)")
    return found


def _tree() -> Path:
    if os.geteuid() != 0:
        raise NotRunnableError("only root mounts cgroups")
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    place = next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if place is None or not os.access(place, os.W_OK):
        raise NotRunnableError("no cgroup v2 is mounted here that may be written")
    return place


class Machine:
    """A node below an empty folder; ``mode`` and ``kind`` are settings of NVIDIA's runtime. Raises NotRunnableError."""

    def __init__(self, folder: Path, node: NodeSpec, mode: str = "jit-cdi", kind: str = "nvidia.com/gpu") -> None:
        self.programs, self.tree, self.folder = programs_of(container_toolkit()), _tree(), folder
        self._spec = node.memory_limits
        self.variables = {"PATH": os.environ["PATH"], "NVIDIA_CTK_CONFIG_FILE_PATH": str(folder / "config.toml")}
        self.create_seconds = 0.0
        self._root = folder / "driver"
        (self._root / "dev").mkdir(parents=True)
        # A hook gets no variables: the library finds its cards beside itself.
        self.state = new_cards(self._root / "fakenvml.state", node)
        for minor, name in [(255, "nvidiactl"), *((card.index, f"nvidia{card.index}") for card in self.state.cards())]:
            os.mknod(self._root / "dev" / name, 0o020666, os.makedev(195, minor))
        for name in (LIBRARY, CUDA_LIBRARY):
            versioned = name.removesuffix("1") + self.state.driver()
            shutil.copy(library_folder(self.state.driver()) / name, self._root / versioned)
            (self._root / name).symlink_to(versioned)
        disabled = [] if self._spec.hook else ["apply-cuda-memory-limits"]
        values = {"folder": folder, "mode": mode, "kind": kind, "disabled": disabled}
        (folder / "config.toml").write_text(_CONFIG.format_map({**self.programs, **values}))

    @property
    def devices(self) -> Path:
        """The folder of its files of the CDI."""
        return self.folder / "cdi"

    @property
    def command(self) -> tuple[str, ...]:
        """NVIDIA's program of hooks, as this machine needs it."""
        return str(self.programs["nvidia-cdi-hook"]), f"--driver-root={self._root}"

    def describe(self, *flags: str) -> None:
        """Write a CDI specification of the cards, as an administrator does."""
        options = [f"--driver-root={self._root}", f"--output={self.folder}/cdi/cards.yaml"]
        options.append(f"--nvidia-cdi-hook-path={self.programs['nvidia-cdi-hook']}")
        ctk = str(self.programs["nvidia-ctk"])
        subprocess.run([ctk, "cdi", "generate", *options, *flags], check=True, capture_output=True)

    def hook(self, environment: Sequence[str], cards: Sequence[str]) -> Outcome:
        """NVIDIA's hook alone, for a process in a new cgroup; ``environment`` is the container's, as ``NAME=value``."""
        folder = self.folder / f"bundle-{next(_numbers)}"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"process": {"env": list(environment)}}))
        group = self.tree / new_name()
        group.mkdir()
        with subprocess.Popen(["sleep", "inf"]) as process:
            try:
                (group / "cgroup.procs").write_text(str(process.pid))
                state = json.dumps({"ociVersion": "1.0.2", "bundle": str(folder), "pid": process.pid})
                arguments = [f"--driver-root={self._root}", *(f"--gpu-id={uuid}" for uuid in cards)]
                code, log = self.run("nvidia-cdi-hook", "apply-cuda-memory-limits", *arguments, given=state)
            finally:
                process.kill()
        outcome = Outcome(kept(self.state, group.stat().st_ino), f"{code}: {_error(log)}" if code else "")
        group.rmdir()
        return outcome

    def container(self, environment: Sequence[str]) -> Outcome:
        """Create a container, look at its cgroup, and delete it."""
        name = new_name()
        bundle, root = self._bundle(name, environment), ("--root", str(self.folder / "run"))
        begun = time.monotonic()
        code, log = self.run("nvidia-container-runtime", *root, "create", "--bundle", str(bundle), name)
        self.create_seconds = time.monotonic() - begun
        group = self.tree / name
        try:
            limits = kept(self.state, group.stat().st_ino) if group.is_dir() else ()
            return Outcome(limits, hook_error(_error(log)) if code else "")
        finally:
            self.run("runc", *root, "delete", "--force", name)

    def _bundle(self, name: str, environment: Sequence[str]) -> Path:
        """A file system with nothing but the program, which is never started."""
        folder = self.folder / name
        (folder / "rootfs").mkdir(parents=True)
        (folder / "rootfs" / "program").touch(0o755)
        process = {"args": ["/program"], "cwd": "/", "env": list(environment), "user": {"uid": 0, "gid": 0}}
        places = (("/proc", "proc"), ("/dev", "tmpfs"))
        mounts = [{"destination": place, "type": kind, "source": kind} for place, kind in places]
        kinds = ("pid", "mount", "ipc", "uts")
        linux = {"cgroupsPath": f"/{name}", "namespaces": [{"type": kind} for kind in kinds]}
        spec = {"ociVersion": "1.0.2", "process": process, "root": {"path": "rootfs"}, "mounts": mounts, "linux": linux}
        (folder / "config.json").write_text(json.dumps(spec))
        return folder

    def run(self, program: str, *arguments: str, given: str = "") -> tuple[int, str]:
        """Run one of the programs with a /sys/fs/cgroup of the node's version; its exit code, and its log.

        A container's first process keeps its streams, so they are files.
        """
        mount = f'mount --bind "{self.tree}" {_MOUNTS}'
        if self._spec.cgroup == "v1" and program == "nvidia-cdi-hook":
            mount = f"mount -t tmpfs none {_MOUNTS}"
        elif self._spec.cgroup == "v1":
            if self.tree == _MOUNTS:
                raise NotRunnableError("runc needs cgroup v1 here, and this machine has none")
            mount = "true"
        inside = ["unshare", "--mount", "--propagation=private", "sh", "-euc", f'{mount}; exec "$@"', "sh"]
        with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile("w+") as text:
            text.write(given)
            text.seek(0)
            command = [*inside, str(self.programs[program]), *arguments]
            # With a timeout it would look for the end every 50 ms, longer than a hook takes.
            done = subprocess.run(command, env=self.variables, stdin=text, stdout=log, stderr=log, check=False)
            log.seek(0)
            return done.returncode, log.read()


def new_name() -> str:
    """A name that no other cgroup has."""
    return f"gpushare-test-{os.getpid()}-{next(_numbers)}"


def print_added(spent: Mapping[str, Sequence[float]]) -> None:
    """Print the median of each kind of container, and what it takes more than the first kind; all in ms."""
    first = next(iter(spent.values()))
    for name, times in spent.items():
        # Rounds are compared one by one, because the speed of the machine changes.
        pairs = list(zip(times, first, strict=True))
        added = statistics.median(one - other for one, other in pairs)
        ratio = statistics.median(one / other for one, other in pairs)
        print(f"{name}: {statistics.median(times):.0f} ms, {added:+.1f} ms, {ratio:.2f} times")  # noqa: T201  # its answer


def main() -> int:
    """Print the median time to create a container by NVIDIA's runtime: without its hook, with it, and with a limit."""
    card, both = ["NVIDIA_VISIBLE_DEVICES=0"], [f"{REQUEST}=0", f"{LIMIT}=4096"]
    with tempfile.TemporaryDirectory() as folder:
        specs = [LimitSpec(hook=has) for has in (False, True)]
        nodes = [NodeSpec(f"n{number}", "t4x2", "615", memory_limits=spec) for number, spec in enumerate(specs)]
        bare, whole = (Machine(Path(folder, node.name), node) for node in nodes)
        kinds = {"without the hook": (bare, card), "with it": (whole, card), "with a limit": (whole, [*card, *both])}
        spent: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(_ROUNDS):
            for name, (machine, environment) in kinds.items():
                machine.container(environment)
                spent[name].append(1000 * machine.create_seconds)
    print_added(spent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
