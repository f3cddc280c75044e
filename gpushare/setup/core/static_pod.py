"""The manifest of kube-scheduler's static pod: what it runs, and what it has to have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpushare import wire
from gpushare.setup.core.command_line import base_name, find, flags_of, on_node
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.yaml_edit import Entry, load, mapping

_PROGRAM: Final = "kube-scheduler"
_RELEASE: Final = re.compile(r":v?1\.(\d{1,4})\.\d+")
_COMPARE: Final = "compare it with the one of another control plane node"


@dataclass(frozen=True, slots=True)
class SchedulerPod:
    """kube-scheduler as a static pod."""

    at: tuple[str | int, ...]
    """Where its list of flags is."""
    words: tuple[str, ...]
    """Its flags, as they are written."""
    is_script: bool
    """A shell's script has them."""
    image: str
    flags: Mapping[str, str]
    """By name, without dashes."""
    mounts: tuple[tuple[dict[str, Any], dict[str, Any]], ...]
    """What is mounted from the node: each mount of the container, and its volume."""
    probe: tuple[str, int]
    """Scheme and port of its health."""

    def takes(self, flag: str) -> bool:
        """May the flag be written as an item of its own: is it there so, or not at all?"""
        given = [word for word in self.words if word.lstrip("-").partition("=")[0] == flag]
        return not self.is_script and len(given) <= 1 and all("=" in word for word in given)

    def on_node(self, path: str) -> str | None:
        """The path of the node that the container sees as ``path``; None if it is not mounted."""
        return on_node(path, {mount["mountPath"]: volume["hostPath"]["path"] for mount, volume in self.mounts})


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


def is_scheduler(text: str, path: str) -> bool:
    """Is it the manifest of the cluster's scheduler, whatever program that runs, by its file's name or its pod's?"""
    if _PROGRAM not in text and _PROGRAM not in path:
        return False
    try:
        pod = load(text, path)
    except SetupRefusedError:
        return _PROGRAM in base_name(path)
    return mapping(pod, "metadata").get("name") == _PROGRAM or base_name(path).partition(".")[0] == _PROGRAM


def read(text: str, path: str) -> SchedulerPod:
    """Raises SetupRefusedError."""
    pod = load(text, path)
    runs = []
    try:
        spec = pod["spec"]
        for number, container in enumerate(spec["containers"]):
            words = [str(word) for key in ("command", "args") for word in container.get(key) or []]
            runs.append(words[0] if container.get("command") else f"what the image {container['image']} starts")
            command = find(words, _PROGRAM)
            if command is not None:
                listed = "args" if "args" in container else "command"
                return SchedulerPod(
                    ("spec", "containers", number, listed),
                    command.words,
                    command.is_script,
                    str(container["image"]),
                    _flags(command.words, path),
                    tuple(_mounts(spec, container)),
                    _probe(container),
                )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise SetupRefusedError(f"{path}: no pod that runs {_PROGRAM}: {error!r} is missing", _COMPARE) from error
    raise SetupRefusedError(
        f"{path}: it runs {' and '.join(runs) or 'nothing'}, and no {_PROGRAM}",
        "configure that scheduler's extender by its own documentation, or run a second scheduler for the pods that share "
        "cards: kubectl apply -k clusters/deploy/overlays/second-scheduler",
    )


def _flags(words: Sequence[str], path: str) -> dict[str, str]:
    try:
        found = flags_of(words)
    except ValueError as error:
        raise SetupRefusedError(
            f"{path}: {str(error)!r} is no flag", "write each flag as one item of the list: --name=value"
        ) from error
    filled = [word for word in words if word.startswith("$")] + [
        f"--{name}={found[name]}" for name in ("config", "policy-config-file") if "$" in found.get(name, "")
    ]
    if filled:
        raise SetupRefusedError(
            f"{path}: {filled[0]} of {_PROGRAM} is filled at its start, so its file is not known",
            "write the value itself into the manifest",
        )
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


def entries(pod: SchedulerPod, argument: str, files: Mapping[str, str], digest: str) -> list[Entry]:
    """The entries that the manifest has to have.

    ``argument`` is the flag with the scheduler's file, "" if it is there already. ``files`` are the paths that the manifest mounts,
    by the names of their volumes. A kubelet restarts the pod only if the manifest differs, so the digest of the scheduler's file is
    an annotation.
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
    return [Entry(pod.at, argument, is_item=True), *found] if argument else found
