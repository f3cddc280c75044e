"""Judges a machine with cards before it shares them: driver, container runtime, kubelet. Without network; nothing is changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Self

from e2e.report.verdict_table import PreflightLine
from e2e.site import default_ports, driver_probe
from e2e.site.container_runtimes import Configuration, configurations, owner_for_kubelet
from e2e.site.listening_ports import command_lines, listening
from e2e.site.picture import Object, Parts
from e2e.site.preflight_lines import Rule, Seen, UnseenError, judged, ok, unknown, wrong

_MACHINE: Final = "machine"
_ok, _wrong, _unknown = (partial(judgement, _MACHINE) for judgement in (ok, wrong, unknown))
_VERSION: Final = re.compile(r"\s(\d+\.\d+(?:\.\d+)?)\s")
_MINOR: Final = re.compile(r"Device Minor:\s*(\d+)")
_MODEL: Final = re.compile(r"Model:\s*(.+)")
_LIBRARY_FOLDERS: Final = ("usr/lib/*-linux-gnu*", "usr/lib64", "usr/lib", "lib64", "lib", "usr/local/nvidia/lib64")
_DEVICE_PLUGINS: Final = "var/lib/kubelet/device-plugins"
_POD_RESOURCES: Final = "var/lib/kubelet/pod-resources/kubelet.sock"
# The sockets of plugins that give out NVIDIA's cards in their own way.
_OTHER_SOCKET: Final = re.compile(r"nvidia|hami|vgpu|vcuda|volcano")
_MPS: Final = "nvidia-cuda-mps-control"
# Loading CUDA wakes a card up, which may take some seconds.
_PATIENCE: Final = 60.0
_INSTALL_DRIVER: Final = "install NVIDIA's driver on the machine, and see that nvidia-smi lists its cards"


@dataclass(frozen=True)
class Machine:
    """The folder in which its files are, and what its libraries answered; None: they were not loaded."""

    root: Path
    probed: Mapping[str, Any] | None = None

    def parts(self) -> Parts:
        """See ``Divisible``: it is judged as one."""
        return {}

    def of(self, parts: Iterable[Sequence[Object]]) -> Self:
        """See ``Divisible``."""
        return self

    @cached_property
    def cards(self) -> Mapping[int, str]:
        """The model of each card that the driver has, by its minor."""
        texts = [path.read_text() for path in sorted(self.root.glob("proc/driver/nvidia/gpus/*/information"))]
        found = [(_MINOR.search(text), _MODEL.search(text)) for text in texts]
        return {int(minor[1]): model[1].strip() if model else "" for minor, model in found if minor}


def machine_preflight(root: Path = Path("/")) -> list[PreflightLine]:
    """All lines of the machine with its files below ``root``; libraries are loaded only if that is ``/``."""
    probed = probe() if root == Path("/") else None
    return judged(RULES, Machine(root, probed), _MACHINE)


def probe() -> Mapping[str, Any]:
    """The answers of NVIDIA's libraries, from a process of their own; ``crash``: it failed or hung."""
    command = [sys.executable, driver_probe.__file__]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=True)
        return dict(json.loads(done.stdout))
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        return {"crash": str(error)}


def driver(machine: Machine) -> Iterator[Seen]:
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


def device_files(machine: Machine) -> Iterator[Seen]:
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


def libraries(machine: Machine) -> Iterator[Seen]:
    """The driver's libraries can be loaded, and NVML starts."""
    probed = machine.probed
    if probed is None:
        yield from _library_files(machine.root)
        return
    if "crash" in probed:
        yield _wrong(f"a library does not come back: {probed['crash']}", "install the driver's libraries again")
        return
    for name, error in probed["libraries"].items():
        if error:
            yield _wrong(f"{name} cannot be loaded: {error}", "install the libraries of the driver's version")
        elif name == driver_probe.NVML and probed["nvml"]:
            todo = "after an update of the driver restart the machine, so that module and library are of one version"
            yield _wrong(f"{name} does not start: {probed['nvml']}", todo)
        else:
            yield _ok(f"{name} can be loaded")


def container_runtime(machine: Machine) -> Iterator[Seen]:
    """NVIDIA's runtime is the default one of the program that runs the kubelet's containers."""
    used = owner_for_kubelet(machine.root)
    found = [one for one in configurations(machine.root) if used in ("", one.owner)]
    if not found:
        text = f"no configuration of {used or 'containerd, docker or CRI-O'} is there: NVIDIA's runtime is not in use"
        yield _wrong(text, "install NVIDIA's container toolkit, then nvidia-ctk runtime configure --set-as-default")
    seen = [_of_runtime(machine.root, one) for one in found]
    # If the kubelet names none of them, one that is as it must be is taken to be the one.
    yield from seen if used else ([one for one in seen if one.judgement == "ok"] or seen)


def device_plugin_folder(machine: Machine) -> Iterator[Seen]:
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


def pod_resources(machine: Machine) -> Iterator[Seen]:
    """The kubelet shows which container has which devices."""
    if (machine.root / _POD_RESOURCES).exists():
        yield _ok(f"/{_POD_RESOURCES}")
    else:
        yield _wrong(f"/{_POD_RESOURCES} is not there", "start the kubelet; before Kubernetes 1.15 update it")


def ports(machine: Machine) -> Iterator[Seen]:
    """No other program listens on a port of ours."""
    wanted = {**default_ports.CONTROL_PLANE, **default_ports.SHARING}
    try:
        taken = listening(machine.root / "proc")
    except (OSError, ValueError, IndexError) as error:
        raise UnseenError(f"the ports that are listened on cannot be read: {error}", "run ss -ltnp yourself") from error
    others = {port: command for port, command in taken.items() if port in wanted and "gpushare" not in command}
    for port, command in sorted(others.items()):
        text = f"port {port}, which {wanted[port]} asks for, is taken"
        if command:
            yield _wrong(f"{text} by {command[:60]}", "change the port of one of them")
        else:
            yield _unknown(f"{text} by a program that this user may not see", "run it as root")
    if not others:
        yield _ok(f"no other program has {', '.join(map(str, wanted))}")


def mig(machine: Machine) -> Iterator[Seen]:
    """Not all cards are in MIG mode: the memory of such a card belongs to its slices."""
    if machine.probed is None or machine.probed.get("nvml", "no answer") or not machine.probed.get("mig"):
        raise UnseenError("NVML showed no card", "run nvidia-smi --query-gpu=index,mig.mode.current --format=csv")
    cards = [str(index) for index, is_mig in enumerate(machine.probed["mig"]) if is_mig]
    if cards:
        judgement = _wrong if len(cards) == len(machine.probed["mig"]) else _unknown
        todo = "nvidia-smi -mig 0 for a card that is to be shared; gpushare leaves the others alone"
        yield judgement(f"cards in MIG mode: {', '.join(cards)}", todo)
    else:
        yield _ok("no card is in MIG mode")


def mps(machine: Machine) -> Iterator[Seen]:
    """No MPS daemon runs: containers do not have its pipe."""
    if any(_MPS in command for _, command in command_lines(machine.root / "proc")):
        text = "an MPS daemon runs: containers without its pipe cannot use a card in exclusive mode"
        yield _unknown(text, "look at nvidia-smi -q -d COMPUTE; echo quit | nvidia-cuda-mps-control ends it")
    else:
        yield _ok("no MPS daemon runs")


def _library_files(root: Path) -> Iterator[Seen]:
    for name in driver_probe.LIBRARIES:
        found = next((path for folder in _LIBRARY_FOLDERS for path in root.glob(f"{folder}/{name}")), None)
        if found is None:
            yield _wrong(f"{name} is in none of the usual folders", _INSTALL_DRIVER)
        else:
            yield _ok(f"/{found.relative_to(root)} is there; not loaded below another root")


def _of_runtime(root: Path, one: Configuration) -> Seen:
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
    "ports": ports,
}
