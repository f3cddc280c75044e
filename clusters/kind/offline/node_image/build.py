"""``python -m clusters.kind.offline.node_image.build``: build the image of kind's nodes, without an image registry.

Programs come from Go, packages from this machine's own Debian mirror; both are kept in the cache (GPUSHARE_CACHE moves it). An
image that the engine has is not built again: its tag is its content. Prints the name of the image last.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import yaml

from clusters.controlplane import binaries
from clusters.controlplane.binaries import Module, cache_folder
from clusters.controlplane.build import ensure_modules
from clusters.kind.engine.docker_client import has_images
from clusters.kind.engine.engine import engine_environment
from clusters.kind.offline import debian
from clusters.kind.offline.node_image import preload, rootfs
from clusters.kind.offline.oci_archive import Image, Layer, write_archive, write_layer
from clusters.processes.commands import BUILDING, Progress, exit_code_of, locked
from clusters.processes.tied import tied
from clusters.provider import ClusterError

MODULES: Final = Path(__file__).parents[2] / "binaries"
# In the node's file system.
NODE_PROGRAMS: Final = ("kubelet", "kubeadm", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr")
NETWORK_PLUGINS: Final = ("host-local", "loopback", "portmap", "ptp")
# Each in an image of its own.
IMAGE_PROGRAMS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "etcd",
    "coredns",
    "pause",
)
_KUBERNETES: Final = "k8s.io/kubernetes"
_KUBERNETES_PROGRAMS: Final = (*binaries.KUBERNETES_PROGRAMS, "kubelet", "kubeadm", "kube-proxy")
_CNI: Final = "github.com/containernetworking/plugins"
_COREDNS: Final = "github.com/coredns/coredns"
_ETCD: Final = "go.etcd.io/etcd/server/v3"
REPOSITORY: Final = "gpushare/kind-node"
_HERE: Final = Path(__file__).parent
_ENTRYPOINT: Final = "/usr/local/libexec/node/entrypoint"
FILES: Final = _HERE / "files"
UNITS: Final = _HERE / "units.yaml"
_UNIT_FOLDER: Final = "etc/systemd/system"
# Filled in with the name of the image that kubeadm asks for.
_PAUSE: Final = "@PAUSE@"
# kind's own way to ask systemd for an orderly end.
_STOP_SIGNAL: Final = "SIGRTMIN+3"


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``; 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)

    def build() -> None:
        print(ensure(arguments.kubernetes, engine_environment(dict(os.environ)), sys.stderr))  # noqa: T201  # the answer

    return exit_code_of(rootfs.COMMAND, build)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m clusters.kind.offline.node_image.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--kubernetes", choices=minors(), default=minors()[0], help="minor to build (default: %(default)s)"
    )
    return parser


def ensure(minor: str, environment: Mapping[str, str], out: TextIO) -> str:
    """The name of the node image of that minor in the engine, built if it is not there.

    ``environment`` reaches the engine (``clusters.kind.engine.engine_environment``). Raises ClusterError.
    """
    built = modules(minor)
    name = name_of(built)
    if not has_images([name], environment):
        cache = cache_folder(environment).parent / "node-image"
        with locked(cache, rootfs.COMMAND, out):
            # Another process may have built it while we waited.
            if not has_images([name], environment):
                _build(name, built, cache, environment, out)
    return name


def name_of(built: Sequence[Module], folder: Path = _HERE) -> str:
    """``gpushare/kind-node:<version>-<12 digits>``; the digits are of everything that goes into the image, with ``folder``."""
    content = hashlib.sha256()
    for module in built:
        pins = [(module.folder / file).read_bytes() for file in ("go.mod", "go.sum") if (module.folder / file).exists()]
        content.update(repr((module.name, module.version, sorted(module.packages), module.tags, pins)).encode())
    content.update(rootfs.key(debian.host_suite()).encode())
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md":
            content.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{REPOSITORY}:{built[0].version}-{content.hexdigest()[:12]}"


def _build(name: str, built: Sequence[Module], cache: Path, environment: Mapping[str, str], out: TextIO) -> None:
    programs = ensure_modules(built, environment, out)
    layers_of_debian = rootfs.ensure(cache, environment, out)
    version = built[0].version
    versions = {program: module.version for module in built for program in module.packages}
    asked = preload.names_of(programs["kubeadm"], version, environment)
    with (
        tempfile.TemporaryDirectory(prefix=BUILDING, dir=cache) as temporary,
        Progress(rootfs.COMMAND, f"building {name}", out, "under a minute") as progress,
    ):
        folder = Path(temporary)
        progress.detail = "packing the control plane"
        images = [
            preload.image_of(
                program,
                asked[program],
                programs[program],
                versions[program],
                folder,
                [layers_of_debian["packet-filter"]] if program == "kube-proxy" else [],
            )
            for program in IMAGE_PROGRAMS
        ]
        progress.detail = "filling containerd's store"
        preload.store(images, programs["containerd"], programs["ctr"], folder, environment)
        progress.detail = "packing the node"
        layers = [layers_of_debian["node"], *_own_layers(folder, programs, version, asked["pause"])]
        progress.detail = "loading it into Docker"
        _load(_node(name, layers, versions), environment)
        progress.line(f"built {name}")


def _own_layers(folder: Path, programs: Mapping[str, Path], version: str, pause: str) -> Iterator[Layer]:
    """Programs, the store of images, settings: what changes least comes first, so that Docker has it already."""
    write_programs(folder / "programs", programs)
    yield write_layer(folder / "programs", folder / "programs.tar")
    (folder / "store/var/lib").mkdir(parents=True)
    (folder / "root").rename(folder / "store/var/lib/containerd")
    yield write_layer(folder / "store", folder / "store.tar")
    write_settings(folder / "settings", version, pause)
    yield write_layer(folder / "settings", folder / "settings.tar")


def _node(name: str, layers: Sequence[Layer], versions: Mapping[str, str]) -> Image:
    return Image(
        names=(name,),
        layers=tuple(layers),
        entrypoint=(_ENTRYPOINT,),
        environment={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container": "docker"},
        labels={f"gpushare.node-image/{program}": version for program, version in versions.items()},
        stop_signal=_STOP_SIGNAL,
    )


def _load(image: Image, environment: Mapping[str, str]) -> None:
    """The name appears when all is loaded: a process that is killed before leaves none."""
    with subprocess.Popen(
        tied(["docker", "load", "--quiet"]),
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        try:
            write_archive([image], process.stdin)
            process.stdin.close()
        except BrokenPipeError:
            # It has ended already, and its error has the reason.
            pass
        except BaseException:
            process.terminate()
            raise
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0 or not has_images(image.names, environment):
        raise ClusterError(f"docker load of {image.names[0]} ended with {process.returncode}: {said or 'no image'}")


def write_programs(tree: Path, programs: Mapping[str, Path]) -> None:
    """Programs of the node in /usr/local/bin, network plugins in containerd's folder for them."""
    for folder, names in (("usr/local/bin", NODE_PROGRAMS), ("opt/cni/bin", NETWORK_PLUGINS)):
        (tree / folder).mkdir(parents=True)
        for name in names:
            shutil.copyfile(programs[name], tree / folder / name)
            (tree / folder / name).chmod(0o755)


def write_settings(tree: Path, version: str, pause: str) -> None:
    """Files of ``files/``, which units start, and the release of Kubernetes for kind."""
    shutil.copytree(FILES, tree, dirs_exist_ok=True)
    for path in tree.rglob("*"):
        # As a checkout has them, except for the bits that differ between users.
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    config = tree / "etc/containerd/config.toml"
    config.write_text(config.read_text().replace(_PAUSE, pause))
    (tree / "kind/version").write_text(f"{version}\n")
    # Empty: each node makes its own.
    (tree / "etc/machine-id").write_text("")
    # A worker's kubelet complains every few seconds while it is not there; the kubelet's packages make it, kubeadm join does not.
    (tree / "etc/kubernetes/manifests").mkdir(parents=True)
    _link_units(tree)


def _link_units(tree: Path) -> None:
    units: dict[str, list[str]] = yaml.safe_load(UNITS.read_text())
    folder = tree / _UNIT_FOLDER
    (folder / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    wants = folder / "multi-user.target.wants"
    wants.mkdir(parents=True)
    for unit in units["enabled"]:
        (wants / unit).symlink_to(f"/{_UNIT_FOLDER}/{unit}")
    for unit in units["masked"]:
        (folder / unit).symlink_to("/dev/null")


def minors() -> list[str]:
    """The minors of Kubernetes with a pinned kubelet, the newest first."""
    return [minor for minor in binaries.minors() if f'"{_KUBERNETES}/cmd/kubelet"' in _tools(minor)]


def _tools(minor: str) -> str:
    return (binaries.MODULES / f"kubernetes-{minor}" / "tools.go").read_text()


def modules(minor: str) -> tuple[binaries.Module, ...]:
    """The builds for a node of that minor, Kubernetes first. Raises ClusterError for one that is not pinned."""
    if minor not in minors():
        raise ClusterError(f"a kubelet of Kubernetes {minor} is not pinned here; there is: {', '.join(minors())}")
    folder = binaries.MODULES / f"kubernetes-{minor}"
    kubernetes = {program: f"{_KUBERNETES}/cmd/{program}" for program in _KUBERNETES_PROGRAMS}
    return (
        binaries.module_of(folder, "kubernetes", _KUBERNETES, kubernetes),
        binaries.module_of(binaries.MODULES / "etcd", "etcd", _ETCD, {"etcd": _ETCD}),
        binaries.containerd(),
        _network_plugins(),
        binaries.module_of(MODULES / "coredns", "coredns", _COREDNS, {"coredns": "gpushare/kind/coredns"}),
        pause(),
    )


def pause() -> binaries.Module:
    """Our own, so its version is its content."""
    folder = MODULES / "pause"
    content = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()
    return binaries.Module("pause", folder, content[:12], {"pause": "gpushare/kind/pause"})


def _network_plugins() -> binaries.Module:
    packages = {
        "host-local": f"{_CNI}/plugins/ipam/host-local",
        "loopback": f"{_CNI}/plugins/main/loopback",
        "portmap": f"{_CNI}/plugins/meta/portmap",
        "ptp": f"{_CNI}/plugins/main/ptp",
    }
    return binaries.module_of(MODULES / "cni", "network-plugins", _CNI, packages)


if __name__ == "__main__":
    sys.exit(main())
