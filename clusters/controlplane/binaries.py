"""Where the programs of a control plane are: a folder that the user points at, or our cache of built ones.

Versions are data: each folder ``binaries/kubernetes-<minor>`` is a Go module that pins one release of Kubernetes, and
``binaries/etcd`` pins etcd. Nothing is built or fetched here; ``clusters.controlplane.build`` does.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from clusters.provider import ClusterError

MODULES: Final = Path(__file__).parent / "binaries"
KUBERNETES_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
ETCD: Final = "etcd"
KWOK: Final = "kwok"
_TOOLKIT: Final = "container-toolkit"
# Where envtest's users keep kube-apiserver, etcd and kubectl.
ASSETS_VARIABLE: Final = "KUBEBUILDER_ASSETS"
CACHE_VARIABLE: Final = "GPUSHARE_CACHE"
_ANSWER_SECONDS: Final = 30
_KUBERNETES: Final = "k8s.io/kubernetes"
# The variables in which Kubernetes keeps the version that a program reports.
_STAMPED: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module of ours: its programs, its version, and the folder of the build."""

    name: str
    folder: Path
    version: str
    packages: Mapping[str, str]
    """Program → the Go package of its ``main``."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Variable of a Go package → what the linker puts there: what a program says of itself."""
    tags: tuple[str, ...] = ()
    """Build tags: parts that are left out or linked in."""
    c_linking: str = ""
    """Flags of the C linker. If there are any, parts in C are compiled; else they are left out."""

    def cache(self, root: Path) -> Path:
        """The folder of its built programs."""
        return root / f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one control plane."""

    kubernetes: str
    """The version of kube-apiserver, as it says itself: ``v1.36.3``."""
    paths: Mapping[str, Path]

    def __getitem__(self, program: str) -> Path:
        return self.paths[program]


def minors() -> list[str]:
    """The minors of Kubernetes that are pinned here, the newest first."""
    found = [path.name.removeprefix("kubernetes-") for path in MODULES.glob("kubernetes-*")]
    return sorted(found, key=lambda minor: [int(part) for part in minor.split(".")], reverse=True)


def modules(minor: str) -> tuple[Module, Module]:
    """The modules of that minor: Kubernetes and etcd. Raises ClusterError for one that is not pinned."""
    folder = MODULES / f"kubernetes-{minor}"
    if not folder.is_dir():
        raise ClusterError(f"Kubernetes {minor} is not pinned here; there is: {', '.join(minors())}")
    programs = {program: f"{_KUBERNETES}/cmd/{program}" for program in KUBERNETES_PROGRAMS}
    etcd = "go.etcd.io/etcd/server/v3"
    return (
        module_of(folder, "kubernetes", _KUBERNETES, programs),
        module_of(MODULES / "etcd", "etcd", etcd, {ETCD: etcd}),
    )


def kwok() -> Module:
    """The module of kwok, which plays kubelets on nodes that are nothing but objects: built only if it is asked for."""
    return module_of(MODULES / KWOK, KWOK, "sigs.k8s.io/kwok", {KWOK: "sigs.k8s.io/kwok/cmd/kwok"})


def container_toolkit() -> Module:
    """NVIDIA's container runtime with its hook and its command, and the runc below them: built only if it is asked for.

    The linker's flags are those of its own Makefile: a function that the driver lacks is missed when it is called.
    """
    path = "github.com/NVIDIA/nvidia-container-toolkit"
    programs = {name: f"{path}/cmd/{name}" for name in ("nvidia-cdi-hook", "nvidia-ctk", "nvidia-container-runtime")}
    flags = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"
    programs["runc"] = "github.com/opencontainers/runc"
    module = module_of(MODULES / _TOOLKIT, _TOOLKIT, path, programs)
    stamps = {f"{path}/internal/info.version": module.version.removeprefix("v")}
    return replace(module, stamps=stamps, tags=("urfave_cli_no_docs",), c_linking=flags)


def containerd() -> Module:
    """containerd with its shim of runc and its client: built only if it is asked for."""
    path = "github.com/containerd/containerd/v2"
    programs = {name: f"{path}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    module = module_of(MODULES / "containerd", "containerd", path, programs)
    return replace(module, stamps={f"{path}/version.Version": module.version}, tags=("urfave_cli_no_docs",))


def module_of(
    folder: Path,
    name: str,
    module_path: str,
    packages: Mapping[str, str],
) -> Module:
    """The programs of the Go module in this folder; the version is the one that ``go.mod`` requires of ``module_path``.

    Programs of Kubernetes get their version at the link, as in its own release build. Modules of the same name and version share
    a folder of the cache. Raises ClusterError if the version is not pinned.
    """
    version = _pinned(folder, module_path)
    stamps = _kubernetes_stamps(version) if module_path == _KUBERNETES else {}
    return Module(name, folder, version, packages, stamps)


def _kubernetes_stamps(version: str) -> dict[str, str]:
    major, minor, _ = version.lstrip("v").split(".", 2)
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return {f"{package}.{name}": value for package in _STAMPED for name, value in values.items()}


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where built programs are kept between checkouts: GPUSHARE_CACHE, else the user's cache."""
    if environment.get(CACHE_VARIABLE):
        return Path(environment[CACHE_VARIABLE]).absolute() / "control-plane"
    home = environment.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    cache = environment.get("XDG_CACHE_HOME") or Path(home) / ".cache"
    return Path(cache).absolute() / "gpushare" / "control-plane"


def assets_folder(environment: Mapping[str, str], assets: Path | None) -> Path | None:
    """The folder of ready programs that the user points at: ``--assets``, else KUBEBUILDER_ASSETS.

    Raises ClusterError if there is none: a typo must neither start minutes of building nor make another program run.
    """
    named = environment.get(ASSETS_VARIABLE)
    folder = assets or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise ClusterError(
            f"{folder}: not a folder; --assets and {ASSETS_VARIABLE} name one with kube-apiserver and etcd"
        )
    return folder.absolute() if folder is not None else None


def known(minor: str, environment: Mapping[str, str], assets: Path | None = None) -> dict[str, Path]:
    """The programs of that minor that exist: those of the assets if their version matches, else those of the cache."""
    folder = assets_folder(environment, assets)
    found = _matching(folder, minor) if folder is not None else {}
    for module in modules(minor):
        found = {**cached(module, environment), **found}
    return found


def cached(module: Module, environment: Mapping[str, str]) -> dict[str, Path]:
    """The programs of a module that were built into the cache."""
    folder = module.cache(cache_folder(environment))
    return {program: folder / program for program in module.packages if _is_program(folder / program)}


def locate(minor: str, environment: Mapping[str, str], assets: Path | None = None) -> Binaries:
    """All programs of that minor. Raises ClusterError, which names the missing ones and how to get them."""
    found = known(minor, environment, assets)
    missing = [program for program in (*KUBERNETES_PROGRAMS, ETCD) if program not in found]
    if missing:
        raise ClusterError(
            f"no {', '.join(missing)} of Kubernetes {minor}: `make control-plane KUBERNETES={minor}` builds what is missing "
            f"(needs Go, takes minutes, once)"
        )
    return Binaries(modules(minor)[0].version if _is_ours(found) else version_of(found["kube-apiserver"]), found)


def version_of(program: Path) -> str:
    """The version that a program of Kubernetes reports (``v1.36.3``), or "" if it reports nothing of that form."""
    flag = ("version", "--client") if program.name == "kubectl" else ("--version",)
    try:
        answer = subprocess.run([program, *flag], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r"v\d+\.\d+\.\d+\S*", answer.stdout)
    return match[0] if match else ""


def _is_program(path: Path) -> bool:
    """Is it a file that this user may execute? False also if this user may not even look."""
    return shutil.which(path) is not None


def _is_ours(found: Mapping[str, Path]) -> bool:
    """Built by us: the version is the folder's, and need not be asked for (that takes half a second)."""
    return found["kube-apiserver"].parent.name.startswith("kubernetes-v")


def _matching(folder: Path, minor: str) -> dict[str, Path]:
    """The programs of Kubernetes in a folder that are of that minor, and the etcd beside a kube-apiserver that is."""
    found = {
        program: folder / program
        for program in KUBERNETES_PROGRAMS
        if _is_program(folder / program) and version_of(folder / program).startswith(f"v{minor}.")
    }
    if "kube-apiserver" in found and _is_program(folder / ETCD):
        found[ETCD] = folder / ETCD
    return found


def _pinned(folder: Path, module: str) -> str:
    """The version of a module that a go.mod requires."""
    match = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", (folder / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise ClusterError(f"{folder}/go.mod does not require {module}")
    return match[1]
