"""The manifest of kube-scheduler's static pod: what it runs, and what it has to have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpushare import wire
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.yaml_edit import Entry, load

_PROGRAM: Final = "kube-scheduler"
_RELEASE: Final = re.compile(r":v?1\.(\d{1,4})\.\d+")
_RESTORE: Final = "restore the file that kubeadm wrote: kubeadm init phase control-plane scheduler"


@dataclass(frozen=True, slots=True)
class SchedulerPod:
    """kube-scheduler as a static pod."""

    at: tuple[str | int, ...]
    """Where its list of flags is."""
    image: str
    flags: Mapping[str, str]
    """By name, without dashes."""
    mounts: tuple[tuple[dict[str, Any], dict[str, Any]], ...]
    """What is mounted from the node: each mount of the container, and its volume."""
    probe: tuple[str, int]
    """Scheme and port of its health."""

    @property
    def minor(self) -> int | None:
        """The minor of Kubernetes 1 that the image names; None if it does not."""
        return minor_of(self.image)

    def on_node(self, path: str) -> str | None:
        """The path of the node that the container sees as ``path``; None if it is not mounted."""
        inside_out: dict[str, str] = {mount["mountPath"]: volume["hostPath"]["path"] for mount, volume in self.mounts}
        for inside in sorted(inside_out, reverse=True):
            if path == inside or path.startswith(f"{inside}/"):
                return inside_out[inside] + path[len(inside) :]
        return None


def mounted_under(pod: SchedulerPod, names: Collection[str]) -> list[Entry]:
    """The mounts and volumes that the manifest has under these names."""
    found = []
    for mount, volume in pod.mounts:
        if mount["name"] in names:
            found.append(Entry((*pod.at[:-1], "volumeMounts"), mount, is_item=True))
            found.append(Entry(("spec", "volumes"), volume, is_item=True))
    return found


def minor_of(text: str) -> int | None:
    """The first release of Kubernetes 1 in a text: 30 for ``registry.k8s.io/kube-scheduler:v1.30.2``."""
    found = _RELEASE.search(f":{text}")
    return int(found[1]) if found else None


def read(text: str, path: str) -> SchedulerPod:
    """Raises SetupRefusedError."""
    pod = load(text, path)
    try:
        spec = pod["spec"]
        for number, container in enumerate(spec["containers"]):
            command = container.get("command") or []
            if command and str(command[0]).rpartition("/")[2] == _PROGRAM:
                listed = "args" if "args" in container else "command"
                return SchedulerPod(
                    ("spec", "containers", number, listed),
                    str(container["image"]),
                    _flags([*command[1:], *(container.get("args") or [])], path),
                    tuple(_mounts(spec, container)),
                    _probe(container),
                )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise SetupRefusedError(f"{path}: no pod that runs {_PROGRAM}: {error!r} is missing", _RESTORE) from error
    raise SetupRefusedError(f"{path}: no container has the command {_PROGRAM}", _RESTORE)


def _flags(words: list[str], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name in found:
            raise SetupRefusedError(
                f"{path}: {word!r} {'is there twice' if name in found else 'is no flag'}",
                "write each flag once, as one item of the list: --name=value",
            )
        found[name] = value if equals else "true"
    return found


def _mounts(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    volumes = {one["name"]: one for one in spec.get("volumes") or [] if "hostPath" in one}
    for mount in container.get("volumeMounts") or []:
        if mount["name"] in volumes and "subPath" not in mount:
            yield mount, volumes[mount["name"]]


def _probe(container: Mapping[str, Any]) -> tuple[str, int]:
    """A kubelet asks by HTTP if the probe names no scheme; kube-scheduler without a probe serves HTTPS."""
    asked = (container.get("livenessProbe") or {}).get("httpGet") or {"port": 10259, "scheme": "HTTPS"}
    port = asked["port"]
    named = {one.get("name"): one["containerPort"] for one in container.get("ports") or []}
    return str(asked.get("scheme", "HTTP")).lower(), int(named.get(port, port))


def entries(pod: SchedulerPod, flag: str, files: Mapping[str, str], digest: str) -> list[Entry]:
    """The entries that the manifest has to have.

    ``files`` are the paths that it mounts, by the names of their volumes; the first is the scheduler's file. A kubelet restarts the
    pod only if the manifest differs, so the digest of that file is an annotation.
    """
    found = []
    mounted = {mount["mountPath"]: (mount, volume) for mount, volume in pod.mounts}
    for name, path in files.items():
        if path in mounted and pod.on_node(path) != path:
            raise SetupRefusedError(
                f"{path} of the container is {pod.on_node(path)} of the node", "take that mount out"
            )
        # A path is mounted once; a person may have done so under another name.
        ours = (
            {"mountPath": path, "name": name, "readOnly": True},
            {"hostPath": {"path": path, "type": "File"}, "name": name},
        )
        mount, volume = mounted.get(path, ours)
        found.append(Entry((*pod.at[:-1], "volumeMounts"), mount, is_item=True))
        found.append(Entry(("spec", "volumes"), volume, is_item=True))
    found.append(Entry(("metadata", "annotations", wire.ANNOTATION_SCHEDULER_FILE), digest))
    return [Entry(pod.at, f"--{flag}={next(iter(files.values()))}", is_item=True), *found]
