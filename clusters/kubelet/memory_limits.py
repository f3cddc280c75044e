"""Memory limits of the containers of one simulated node: its cgroups, and NVIDIA's hook that limits them.

``groups`` is a folder as /sys/fs/cgroup. A container has the directory ``kubepods/<qos>/pod<uid>/<id>`` there, as with the cgroupfs
driver (without a level for Guaranteed), from before its start to its end. The hook obeys the rules of nvidia-container-toolkit
1.20.2, with which it is compared, and has its errors: the first ``NVIDIA_GPU_MEMORY_REQUEST`` and ``_LIMIT`` of the container's
variables, in MiB; one of them is enough. If it fails, the container does not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.api import exchanges
from clusters.kubelet.kubelet_cards import CardError, Cards, RealCards, library_environment
from clusters.processes.tied import tied
from clusters.provider import LimitSpec
from fake_nvml.core.layout import LIMITS_DMEM, LIMITS_MISC, LIMITS_NONE

GROUP_FOLDER_NAME: Final = "cgroup"
CDI_FOLDER_NAME: Final = "cdi"
_REQUEST: Final = "NVIDIA_GPU_MEMORY_REQUEST"
_LIMIT: Final = "NVIDIA_GPU_MEMORY_LIMIT"
_MIB: Final = 2**20
_MOST_MIB: Final = 2**44 - 1
_NO_LIMIT: Final = 2**64 - 1
# The hook reads no number with more.
_MOST_DIGITS: Final = 20
_HOOK: Final = Path(__file__).with_name("hook_program.py")
# A runtime's words around those of a hook that failed.
_FAILED: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable "
    "to start container process: error during container init: error running hook #0: error running hook: "
    "exit status {}, stdout: , stderr: {}"
)


class CannotStartError(Exception):
    """The container cannot start; the text is the runtime's."""


class HookError(CannotStartError):
    """The hook ended with an error; the text is what the runtime makes of it. Errors of the hook itself are entries of its log."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(_FAILED.format(code, f"level=error msg={_quoted(text)}" if code == 1 else text))


def amounts_of(variables: Mapping[str, str]) -> tuple[int, int]:
    """Soft and hard limit in bytes, of one variable or both. Raises HookError."""
    given = {name: _mib(name, text) for name, text in variables.items()}
    soft = given.get(_REQUEST, given.get(_LIMIT, 0))
    if _LIMIT not in given:
        return soft * _MIB, _NO_LIMIT
    if soft > given[_LIMIT]:
        raise HookError(f"memory request ({soft} MiB) exceeds memory limit ({given[_LIMIT]} MiB)")
    return soft * _MIB, given[_LIMIT] * _MIB


def _mib(name: str, text: str) -> int:
    digits, wrong = text.lstrip("0") or "0", ""
    if not re.fullmatch(r"[0-9]+", text):
        wrong = f"strconv.ParseUint: parsing {_quoted(text)}: invalid syntax"
    elif len(digits) > _MOST_DIGITS or int(digits) > _NO_LIMIT:
        wrong = f"strconv.ParseUint: parsing {_quoted(text)}: value out of range"
    elif int(digits) > _MOST_MIB:
        wrong = f"{digits} MiB exceeds the maximum supported value of {_MOST_MIB} MiB"
    if wrong:
        raise HookError(f"failed to parse {name}: {wrong}")
    return int(digits)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class MemoryLimits:
    """The cgroups of a node and its hook; ``processes`` is the folder as /proc, ``cdi`` that of the files of the CDI."""

    def __init__(self, groups: Path, processes: Path, cards: Cards | RealCards, spec: LimitSpec, cdi: Path) -> None:
        self._groups = groups
        self._cdi = cdi
        self._processes = processes
        self._cards = cards
        self._spec = spec

    def show_kernel(self) -> None:
        """Write the files by which a program sees whether kernel and driver can limit memory."""
        state = self._cards.state
        number = LIMITS_NONE if state is None else state.read().header.limits
        regions = [f"nvidia/{card.bus_id}/vidmem {card.total_mib * _MIB}\n" for card in state.cards()] if state else []
        is_new = self._spec.cgroup == "v2"
        has_dmem = is_new and number == LIMITS_DMEM
        _write(self._groups / "cgroup.controllers", f"cpu io memory pids{' dmem' * has_dmem}\n" if is_new else None)
        _write(self._groups / "dmem.capacity", "".join(regions) if has_dmem else None)
        can_misc = int(number == LIMITS_MISC or self._spec.switched_off)
        _write(self._processes / "cgroups", f"#subsys_name\thierarchy\tnum_cgroups\tenabled\nmisc\t0\t1\t{can_misc}\n")
        words = "RmMemacctMode=0" if self._spec.switched_off else ""
        _write(self._processes / "driver" / "nvidia" / "params", f'RegistryDwords: "{words}"\n')

    def group(self, uid: str, qos: str, container: str) -> str:
        """The path of a container's cgroup, from the root of the folder."""
        level = "" if qos == "Guaranteed" else f"{qos.lower()}/"
        return f"kubepods/{level}pod{uid}/{container}"

    def folder(self, group: str) -> Path:
        """The directory of a cgroup."""
        return self._groups / group

    def begin(self, group: str) -> Path:
        """Make a container's directory."""
        folder = self.folder(group)
        folder.mkdir(parents=True)
        return folder

    def end(self, folder: Path) -> None:
        """Remove it, and the pod's if no container is left; the kernel drops their limits."""
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()
        if (state := self._cards.state) is not None and state.limits():
            state.clear_limits(dead=True)

    def variables(
        self, image: Mapping[str, str], plugins: Mapping[str, str], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """The hook's two variables as it finds them first; ``environment`` are the plugins' and the author's, which win.

        containerd lists the image's, the plugins' and the author's, and keeps all; CRI-O has one entry, of the last that sets it.
        """
        rows = (environment, image) if self._spec.order == "cri-o" else (image, plugins, environment)
        known = {name: next((row[name] for row in rows if name in row), None) for name in (_REQUEST, _LIMIT)}
        return {name: value for name, value in known.items() if value is not None}

    def note(self, uid: str, container: str, folder: Path, visible: str | None, *, is_other: bool) -> None:
        """Pass on which limits a container has, if this node has the hook."""
        cards, state = self._cards.visible(visible), self._cards.state
        if state is None or not cards or not self._spec.hook:
            return
        inode, index = folder.stat().st_ino, {card.uuid: card.index for card in cards}
        rows = {
            index[one.card]: (one.soft, one.hard) for one in state.limits() if one.cgroup == inode and one.card in index
        }
        sizes = {card.index: card.total_mib for card in cards}
        exchanges.pass_on(exchanges.Limited(time.monotonic(), uid, container, sizes, rows, is_other))

    async def apply(self, folder: Path, variables: Mapping[str, str], visible: str | None) -> None:
        """Run the hook for a container that sees these cards. Raises HookError; the container must not start then."""
        uuids = [card.uuid for card in self._cards.visible(visible)]
        if self._spec.hook:
            await self._hook(folder, variables, uuids)

    async def apply_devices(self, folder: Path, names: Iterable[str]) -> None:
        """Run the ``poststart`` hooks of these devices of the CDI, each of which is NVIDIA's with other variables.

        Raises CannotStartError for a device without a description, too.
        """
        known = {
            f"{file['kind']}={device['name']}": device
            for file in map(_json_of, sorted(self._cdi.glob("*.json"))) for device in file["devices"]
        }  # fmt: skip
        if missing := [name for name in names if name not in known]:
            raise CannotStartError(
                f"failed to create containerd container: unresolvable CDI devices {', '.join(missing)}"
            )
        for name in names:
            for hook in known[name]["containerEdits"]["hooks"]:
                _, _, _, bundle, *words = hook["args"]
                given = dict(one.split("=", 1) for one in _json_of(Path(bundle, "config.json"))["process"]["env"])
                uuids = [word.partition("=")[2] for word in words if word.startswith("--gpu-id=")]
                await self._hook(folder, given, uuids)

    async def _hook(self, folder: Path, variables: Mapping[str, str], uuids: Sequence[str]) -> None:
        state = self._cards.state
        if not variables or not uuids or state is None:
            return
        if self._spec.cgroup == "v1":
            raise HookError("setting GPU memory limits is only supported in cgroup v2")
        amounts = amounts_of(variables)
        try:
            environment = await asyncio.to_thread(library_environment, state)
        except CardError as error:
            raise HookError(str(error)) from error
        # The container runtime is root.
        await _run([str(folder), *map(str, amounts), *uuids], {**environment, "FAKENVML_AS_ROOT": "1"})


def _json_of(path: Path) -> Any:
    return json.loads(path.read_bytes())


async def _run(arguments: list[str], environment: Mapping[str, str]) -> None:
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *tied([sys.executable, "-I", "-S", _HOOK, *arguments]), env=environment, stderr=pipe
    )
    try:
        _, errors = await started.communicate()
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()
    if started.returncode:
        raise HookError(errors.decode(errors="replace").strip(), started.returncode)


def _write(path: Path, text: str | None) -> None:
    """Write a file, or remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text)
