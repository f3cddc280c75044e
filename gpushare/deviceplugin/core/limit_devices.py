"""Our own devices of the CDI, by which a container is limited whatever its image and its author say. Pure.

A device is one limit on one card: ``gpushare.aliyun.com/limit=GPU-…-2048``. Its hook runs after all hooks of a container's
creation (``poststart``, which runc runs before the container's program), and gives NVIDIA's hook a specification with our two
variables in place of the container's. Many containers may have one device. The file names the pods that were given each, so a
plugin that was restarted knows which devices the kubelet may name again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from gpushare import wire
from gpushare.foreign import Decoder, UnreadableError
from gpushare.model.limits import HOOK

FILE_NAME: Final = "gpushare-limits.json"
# Runtimes read no folders below that of the files.
BUNDLES: Final = "gpushare-limits"
_PODS: Final = "gpushare.aliyun.com/pods"
# The words after it are $0, the folder of the specification, and the command. The text of an author in a container's state has
# its quotes escaped, so it is not taken for a key.
_SCRIPT: Final = """sed 's|"bundle" *: *"[^"]*"|"bundle":"'"$0"'"|g' | "$@\""""
# A hook has no variables of its own.
_PATH: Final = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS: Final = 30


class LimitDevice(NamedTuple):
    """A limit of a card in MiB."""

    uuid: str
    mib: int

    @property
    def name(self) -> str:
        """As the file has it."""
        return f"{self.uuid}-{self.mib}"

    @property
    def full_name(self) -> str:
        """As the kubelet and the runtime have it."""
        return f"{wire.CDI_LIMIT_KIND}={self.name}"


# By device, the uids of its pods.
LimitDevices = Mapping[LimitDevice, frozenset[str]]


def kept(devices: LimitDevices, living: Collection[str], booked: LimitDevices) -> LimitDevices:
    """The devices that a container of a living pod has or may get. Those that are booked may be missing: the file was lost."""
    names = devices.keys() | booked.keys()
    found = {one: devices.get(one, frozenset()).intersection(living) | booked.get(one, frozenset()) for one in names}
    return {one: pods for one, pods in found.items() if pods}


def with_pod(devices: LimitDevices, more: Iterable[LimitDevice], uid: str) -> LimitDevices:
    """The devices once a pod has these ones, too."""
    return {**devices, **{one: devices.get(one, frozenset()) | {uid} for one in more}}


class _Edits(msgspec.Struct):
    hooks: list[dict[str, object]]


class _Device(msgspec.Struct, rename="camel"):
    name: str
    container_edits: _Edits | None = None
    annotations: dict[str, str] = {}


class _File(msgspec.Struct, rename="camel"):
    devices: list[_Device]
    cdi_version: str = "0.6.0"
    kind: str = wire.CDI_LIMIT_KIND


_FILE: Final = Decoder(_File)


def file_text(devices: LimitDevices, hook: tuple[str, ...], folder: str) -> bytes:
    """The file of CDI. ``hook`` is the command of NVIDIA's program on the host, ``folder`` that of the file."""
    rows = [
        _Device(one.name, _Edits([_hook(one, hook, folder)]), {_PODS: ",".join(sorted(pods))})
        for one, pods in sorted(devices.items())
    ]
    return msgspec.json.encode(_File(rows))


def _hook(device: LimitDevice, hook: tuple[str, ...], folder: str) -> dict[str, object]:
    program, *arguments = hook
    bundle = f"{folder}/{BUNDLES}/{device.mib}"
    words = ["sh", "-c", _SCRIPT, bundle, program, HOOK, *arguments, f"--gpu-id={device.uuid}"]
    return {"hookName": "poststart", "path": "/bin/sh", "args": words, "env": [_PATH], "timeout": _SECONDS}


def read_devices(text: bytes) -> LimitDevices:
    """The devices of a file; none of one that is not ours."""
    try:
        rows = _FILE.decode(text).devices
    except UnreadableError:
        return {}
    found = dict[LimitDevice, frozenset[str]]()
    for row in rows:
        uuid, _, mib = row.name.rpartition("-")
        if uuid and mib.isdecimal():
            found[LimitDevice(uuid, int(mib))] = frozenset(filter(None, row.annotations.get(_PODS, "").split(",")))
    return found


def bundle_text(mib: int) -> bytes:
    """The specification that NVIDIA's hook reads in place of a container's."""
    variables = {wire.ENV_MEMORY_REQUEST: 0, wire.ENV_MEMORY_LIMIT: mib}
    return msgspec.json.encode({"process": {"env": [f"{name}={value}" for name, value in variables.items()]}})
