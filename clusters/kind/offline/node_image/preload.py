"""The images of the control plane, made of built programs and put into a containerd's store, as a folder for the node image.

kubeadm lists the names that it will ask for. No registry has these images: behind each name is a program that Go built here.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from clusters.kind.offline.oci_archive import Image, Layer, write_archive, write_layer
from clusters.processes.commands import run
from clusters.processes.tied import tied
from clusters.provider import ClusterError

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PREFIX: Final = "registry.k8s.io/"
_START_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
_BOOTED: Final = "containerd successfully booted"
# Only what keeps images is needed; the rest would look at the machine, or need more than is there.
_CONFIG: Final = """version = 3
root = '{root}'
state = '{state}/state'
required_plugins = ['io.containerd.metadata.v1.bolt']
disabled_plugins = ['io.containerd.cri.v1.images', 'io.containerd.cri.v1.runtime', 'io.containerd.grpc.v1.cri',
  'io.containerd.nri.v1.nri', 'io.containerd.internal.v1.opt', 'io.containerd.internal.v1.restart',
  'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.erofs',
  'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.blockfile']
[grpc]
address = '{state}/c.sock'
[ttrpc]
address = '{state}/c.sock.ttrpc'
"""


def names_of(kubeadm: Path, version: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Program → the name and tag under which this kubeadm asks for its image. Raises ClusterError."""
    # With the version named it asks no server on the network.
    listed = run([kubeadm, "config", "images", "list", "--kubernetes-version", version], environment).split()
    return {name.rpartition(":")[0].rpartition("/")[2]: name for name in listed if name.startswith(_PREFIX)}


def image_of(program: str, name: str, path: Path, version: str, folder: Path, below: Sequence[Layer]) -> Image:
    """The image of one program over the layers ``below``; its layer is written into the folder.

    A label holds the version of the program: the tag is the one that kubeadm asks for.
    """
    content = folder / program
    (content / "usr/local/bin").mkdir(parents=True)
    (content / "tmp").mkdir()
    (content / "tmp").chmod(0o1777)
    shutil.copyfile(path, content / "usr/local/bin" / program)
    (content / "usr/local/bin" / program).chmod(0o755)
    layer = write_layer(content, folder / f"{program}.tar", compressed=True)
    shutil.rmtree(content)
    return Image(
        names=(name,),
        layers=(*below, layer),
        entrypoint=(f"/usr/local/bin/{program}",),
        environment={"PATH": _PATH},
        labels={"org.opencontainers.image.version": version, "org.opencontainers.image.title": program},
    )


def store(images: Sequence[Image], containerd: Path, ctr: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Fill ``<folder>/root``, the root of a containerd, with the images, packed as they are. Needs root. Raises ClusterError."""
    archive = folder / "images.tar"
    with archive.open("wb") as out:
        write_archive(images, out)
    with _containerd(containerd, folder / "root", environment) as address:
        client: list[str | Path] = [ctr, "--address", address, "--namespace", "k8s.io", "images"]
        run([*client, "import", "--local", "--no-unpack", archive], environment)
        found = run([*client, "list", "--quiet"], environment).split()
    archive.unlink()
    names = [name for image in images for name in image.names]
    if missing := sorted(set(names) - set(found)):
        raise ClusterError(f"containerd has not kept {', '.join(missing)}; it has {', '.join(found) or 'nothing'}")


@contextmanager
def _containerd(program: Path, root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A containerd of our own while images are put in. Its socket is apart: the path of one is short, a cache may be anywhere."""
    with tempfile.TemporaryDirectory(prefix="gs-") as temporary:
        state = Path(temporary)
        config, log, address = state / "config.toml", state / "log", state / "c.sock"
        config.write_text(_CONFIG.format(root=root, state=state))
        argv = tied([program, "--config", config])
        with log.open("wb") as said, subprocess.Popen(argv, env=dict(environment), stdout=said, stderr=said) as process:
            try:
                wait_until_booted(process, log)
                yield str(address)
            finally:
                process.terminate()


def wait_until_booted(process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when a containerd with this log answers all calls. Raises ClusterError."""
    deadline = time.monotonic() + _START_SECONDS
    while _BOOTED not in (text := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(text.splitlines()[-10:])
            raise ClusterError(f"containerd does not start:\n{tail}")
        time.sleep(_LOOK_SECONDS)
