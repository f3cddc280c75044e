"""Judges a machine with cards before it shares them: driver, container runtime, kubelet. Without network; nothing is changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from clusters.provider import ClusterError
from clusters.real_node import RealNode, machine_name
from e2e.report.verdict_table import PreflightLine
from e2e.site.container_runtimes import Configuration, configurations, owner_for_kubelet
from e2e.site.preflight_lines import Rule, UnseenError, judged, ok, unknown, wrong

_MACHINE: Final = "machine"
_ok, _wrong, _unknown = (partial(judgement, _MACHINE) for judgement in (ok, wrong, unknown))
_NVML: Final = "libnvidia-ml.so.1"
_CUDA: Final = "libcuda.so.1"
_VERSION: Final = re.compile(r"\s(\d+\.\d+(?:\.\d+)?)\s")
_MINOR: Final = re.compile(r"Device Minor:\s*(\d+)")
_MODEL: Final = re.compile(r"Model:\s*(.+)")
_DEVICE_PLUGINS: Final = "var/lib/kubelet/device-plugins"
_POD_RESOURCES: Final = "var/lib/kubelet/pod-resources/kubelet.sock"
# The sockets of plugins that give out NVIDIA's cards in their own way.
_OTHER_SOCKET: Final = re.compile(r"nvidia|hami|vgpu|vcuda|volcano")
_MPS: Final = b"nvidia-cuda-mps-control"
# Loading CUDA wakes a card up, which may take some seconds.
_PATIENCE: Final = 60.0
_INSTALL_DRIVER: Final = "install NVIDIA's driver on the machine, and see that nvidia-smi lists its cards"


@dataclass(frozen=True)
class Machine:
    """The folder in which its files are, and what its driver answered.

    ``libraries`` are errors, "" without one. ``mig`` is the mode of each card, or why it is not known.
    """

    root: Path
    libraries: Mapping[str, str]
    mig: Sequence[str] | str

    @cached_property
    def cards(self) -> Mapping[int, str]:
        """The model of each card that the driver has, by its minor."""
        texts = [path.read_text() for path in sorted(self.root.glob("proc/driver/nvidia/gpus/*/information"))]
        found = [(_MINOR.search(text), _MODEL.search(text)) for text in texts]
        return {int(minor[1]): model[1].strip() if model else "" for minor, model in found if minor}


def machine_preflight() -> list[PreflightLine]:
    """All lines of this machine."""
    mode, why = _answer("nvidia-smi", "--query-gpu=mig.mode.current", "--format=csv,noheader")
    _, cuda = _answer(sys.executable, "-c", f"import ctypes; ctypes.CDLL({_CUDA!r})")
    libraries = {_NVML: _nvml_error(), _CUDA: cuda}
    return judged(RULES, Machine(Path("/"), libraries, why or mode.split()), _MACHINE)


def _nvml_error() -> str:
    """NVML's error as a program meets it, "" without one."""
    try:
        RealNode(machine_name(), Path(), dict(os.environ)).look()
    except (ClusterError, subprocess.SubprocessError, ValueError) as error:
        return str(error)
    return ""


def _answer(*command: str) -> tuple[str, str]:
    """The output of a process, which a library may crash or block, and its error, "" without one."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    except (subprocess.SubprocessError, OSError) as error:
        return "", str(error)
    last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
    return done.stdout, last[0] if done.returncode else ""


def driver(machine: Machine) -> Iterator[PreflightLine]:
    """The kernel has NVIDIA's driver, and it sees cards."""
    try:
        text = (machine.root / "proc/driver/nvidia/version").read_text()
    except OSError:
        yield _wrong("/proc/driver/nvidia/version is not there: no driver is loaded", _INSTALL_DRIVER)
        return
    found = _VERSION.search(text)
    version = found[1] if found else "of unknown version"
    models = ", ".join(f"{minor}: {model}" for minor, model in sorted(machine.cards.items()))
    if models:
        yield _ok(f"driver {version}; cards {models}")
    else:
        yield _wrong(f"driver {version} sees no card", "look for NVRM in the kernel's log, and at lspci")


def device_files(machine: Machine) -> Iterator[PreflightLine]:
    """Each card has its device file, and this user may open it."""
    names = ["nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in sorted(machine.cards))]
    files = [machine.root / "dev" / name for name in names]
    missing = [f"/dev/{file.name}" for file in files if not file.exists()]
    closed = [f"/dev/{file.name}" for file in files if file.exists() and not os.access(file, os.R_OK | os.W_OK)]
    if not machine.cards:
        raise UnseenError("the driver shows no card, so no file is looked for", _INSTALL_DRIVER)
    if missing:
        todo = "run nvidia-modprobe -u -c0 as root, or nvidia-smi; they make the files"
        yield _wrong(f"not there: {', '.join(missing)}", todo)
    elif closed:
        yield _wrong(f"this user may not open {', '.join(closed)}", "run it as root, or correct the files' rights")
    else:
        yield _ok(", ".join(f"/dev/{name}" for name in names))


def libraries(machine: Machine) -> Iterator[PreflightLine]:
    """The driver's libraries can be loaded, and NVML starts."""
    for name, error in machine.libraries.items():
        if error:
            todo = "install the libraries of the driver's version; after an update of the driver restart the machine"
            yield _wrong(f"{name} cannot be used: {error}", todo)
        else:
            yield _ok(f"{name} can be used")


def container_runtime(machine: Machine) -> Iterator[PreflightLine]:
    """NVIDIA's runtime is the default one of the program that runs the kubelet's containers."""
    used = owner_for_kubelet(machine.root)
    found = [one for one in configurations(machine.root) if used in ("", one.owner)]
    if not found:
        text = f"no configuration of {used or 'containerd, docker or CRI-O'} is there: NVIDIA's runtime is not in use"
        yield _wrong(text, "install NVIDIA's container toolkit, then nvidia-ctk runtime configure --set-as-default")
    seen = [_of_runtime(machine.root, one) for one in found]
    # If the kubelet names none of them, one that is as it must be is taken to be the one.
    yield from seen if used else ([one for one in seen if one.judgement == "ok"] or seen)


def device_plugin_folder(machine: Machine) -> Iterator[PreflightLine]:
    """The kubelet takes device plugins, and no other plugin has the cards."""
    folder = machine.root / _DEVICE_PLUGINS
    try:
        sockets = sorted(path.name for path in folder.iterdir() if path.suffix == ".sock")
    except FileNotFoundError:
        yield _wrong(f"/{_DEVICE_PLUGINS} is not there: no kubelet ran here", "join the machine to a cluster")
        return
    others = [name for name in sockets if _OTHER_SOCKET.search(name)]
    if "kubelet.sock" not in sockets:
        yield _wrong(f"/{_DEVICE_PLUGINS}/kubelet.sock is not there", "start the kubelet")
    elif others:
        text = f"other plugins have sockets in /{_DEVICE_PLUGINS}: {', '.join(others)}"
        yield _wrong(text, "keep them off this node; delete the socket of a plugin that is gone")
    else:
        yield _ok(f"/{_DEVICE_PLUGINS} has {', '.join(sockets)}")


def pod_resources(machine: Machine) -> Iterator[PreflightLine]:
    """The kubelet shows which container has which devices."""
    if (machine.root / _POD_RESOURCES).exists():
        yield _ok(f"/{_POD_RESOURCES}")
    else:
        yield _wrong(f"/{_POD_RESOURCES} is not there", "start the kubelet; before Kubernetes 1.15 update it")


def mig(machine: Machine) -> Iterator[PreflightLine]:
    """Not all cards are in MIG mode: the memory of such a card belongs to its slices."""
    if isinstance(machine.mig, str) or not machine.mig:
        why = machine.mig or "it showed no card"
        raise UnseenError(f"nvidia-smi: {why}", "run nvidia-smi --query-gpu=index,mig.mode.current --format=csv")
    cards = [str(index) for index, mode in enumerate(machine.mig) if mode == "Enabled"]
    if cards:
        judgement = _wrong if len(cards) == len(machine.mig) else _unknown
        todo = "nvidia-smi -mig 0 for a card that is to be shared; gpushare leaves the others alone"
        yield judgement(f"cards in MIG mode: {', '.join(cards)}", todo)
    else:
        yield _ok("no card is in MIG mode")


def mps(machine: Machine) -> Iterator[PreflightLine]:
    """No MPS daemon runs: containers do not have its pipe."""
    if any(_MPS in _command(path) for path in machine.root.glob("proc/[0-9]*/cmdline")):
        text = "an MPS daemon runs: containers without its pipe cannot use a card in exclusive mode"
        yield _unknown(text, "look at nvidia-smi -q -d COMPUTE; echo quit | nvidia-cuda-mps-control ends it")
    else:
        yield _ok("no MPS daemon runs")


def _of_runtime(root: Path, one: Configuration) -> PreflightLine:
    place = f"{one.owner} (/{one.path})"
    configure = f"nvidia-ctk runtime configure --runtime={one.owner} --set-as-default, and restart {one.owner}"
    if one.error:
        return _unknown(f"{place} cannot be read: {one.error}", "run it as root, or mend the file")
    missing = [program for program in one.of_nvidia.values() if not _is_program(root, program)]
    if missing:
        todo = "install NVIDIA's container toolkit"
        return _wrong(f"{place} names {', '.join(missing)}, which is not there", todo)
    if one.default in one.of_nvidia:
        return _ok(f"{place}: NVIDIA's runtime is the default ({one.default})")
    if one.of_nvidia:
        text = f"{place}: NVIDIA's runtime is there ({', '.join(one.of_nvidia)}), the default is {one.default}"
        return _unknown(text, f"add components/runtime-class, or {configure}")
    return _wrong(f"{place} has no runtime of NVIDIA's, so containers get no card", configure)


def _command(path: Path) -> bytes:
    """The command line of a process; empty if it has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _is_program(root: Path, program: str) -> bool:
    places = (
        [program] if program.startswith("/") else [f"{folder}/{program}" for folder in ("usr/bin", "usr/local/bin")]
    )
    return any((root / place.lstrip("/")).exists() for place in places)


RULES: Final[Mapping[str, Rule[Machine]]] = {
    "driver": driver,
    "device files": device_files,
    "libraries": libraries,
    "MIG": mig,
    "MPS": mps,
    "container runtime": container_runtime,
    "device plugin folder": device_plugin_folder,
    "pod resources": pod_resources,
}
