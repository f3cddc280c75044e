"""Has the driver limit containers to their share of a card, if this node can, and looks whether the limits are in force.

The decisions are in ``memory_limits``; this reads files and NVML, and publishes on the Node, on pods and to Prometheus.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from gpushare import wire
from gpushare.bounds import REPAIRS_A_MINUTE
from gpushare.cli.plugin_flags import CDI_ANNOTATIONS, CDI_CRI, ContainerFlags, LimitFlags
from gpushare.deviceplugin.core.candidates import Cards
from gpushare.deviceplugin.core.container_answer import Answered
from gpushare.deviceplugin.core.health import CardHealth
from gpushare.deviceplugin.core.kept_pods import KeptPod
from gpushare.deviceplugin.core.limit_devices import LimitDevice
from gpushare.deviceplugin.core.memory_limits import (
    CGROUP_V1,
    DRIVER_TOO_OLD,
    NO_DEVICE,
    CdiSpec,
    Fuse,
    HookFailure,
    LimitLook,
    NodeFacts,
    Readings,
    RunningContainer,
    WhyNot,
    answered_mib,
    booked_limits,
    devices_with_hook,
    hook_fails,
    hook_failures,
    limit_texts,
    limits_condition,
    limits_mib,
    running_containers,
    verify,
    why_not_limited,
)
from gpushare.deviceplugin.core.node_pods import NodePods
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.write_budget import WriteBudget
from gpushare.deviceplugin.limit_devices import LimitDeviceFile
from gpushare.deviceplugin.node_status import NodeWriter
from gpushare.errors import NoCandidateError
from gpushare.foreign import UnreadableError, decode_yaml
from gpushare.kube.api_errors import ApiError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.kube.event_recorder import EventRecorder
from gpushare.model.limits import encode_limits
from gpushare.nvml.api import Card, LimitSupport, NvmlError
from gpushare.nvml.session import NvmlSession, NvmlThread

_LOG = logging.getLogger(__name__)

# Where runtimes look for files of CDI, the second first.
CDI_FOLDERS: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
# The group in which CRI-O with crun keeps the processes of a container.
_NESTED: Final = "container"
_WORD: Final = re.compile(r"[0-9A-Za-z]+")


@dataclass(eq=False)
class LimitWatch:
    """``check`` decides which cards can limit, ``limit`` answers for a container, ``run`` verifies."""

    nvml: NvmlThread
    node: NodeWriter
    health: CardHealth
    pods: NodePods
    client: ApiClient
    events: EventRecorder
    metrics: PluginMetrics
    flags: LimitFlags
    container: ContainerFlags
    proc: Path
    clock: Callable[[], float]
    cdi_folders: tuple[Path, ...] = CDI_FOLDERS
    driver: str = field(default="", init=False)
    # By UUID, why a card cannot limit; the cards that were checked; the files of CDI by name, size and time.
    unable: Mapping[str, WhyNot] = field(default_factory=dict, init=False)
    checked: frozenset[str] = field(default=frozenset(), init=False)
    specs: dict[tuple[str, int, int], CdiSpec] = field(default_factory=dict, init=False)
    fuse: Fuse = field(default_factory=Fuse, init=False)
    last: LimitLook = field(default_factory=LimitLook, init=False)
    # By id of a container that runs, its control group.
    folders: dict[str, Path] = field(default_factory=dict, init=False)
    refusal: str = field(default="", init=False)
    devices: LimitDeviceFile | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.root = Path(self.flags.cgroup_root)
        if self.flags.hook:
            self.devices = LimitDeviceFile(Path(self.flags.cdi_folder), self.flags.hook)
        self.budget = WriteBudget(REPAIRS_A_MINUTE.most)

    async def check(self, cards: Iterable[Card]) -> None:
        """Decide which of the cards that NVML counts can limit: a driver may be replaced, and a file written, at any time."""
        by_index = self.container.id_strategy == "index"
        names = {card.uuid: str(card.index) if by_index else card.uuid for card in cards}
        try:
            support = await self.nvml.ask(functools.partial(NvmlSession.limit_support, folder=self.root))
        except NvmlError as error:
            support = LimitSupport(self.driver, True, dict.fromkeys(names, str(error)))
        self.driver = support.driver
        facts = await asyncio.to_thread(self._facts, support)
        before, self.checked = self.unable, frozenset(names)
        self.unable = why_not_limited(facts, names)
        for why in set(self.unable.values()) - set(before.values()):
            _LOG.warning("containers are not limited reason=%s: %s", why.reason, why.text)
        self._require()

    def _facts(self, support: LimitSupport) -> NodeFacts:
        """The files of the node, with what the driver answers. They are small, but a disk can be slow."""
        # Our own device limits without the hook of a card's.
        is_cdi = not self.flags.hook and not {CDI_CRI, CDI_ANNOTATIONS}.isdisjoint(self.container.list_strategies)
        return NodeFacts(
            support.driver,
            support.sets_limits,
            support.refusals,
            str(self.root),
            (self.root / "cgroup.controllers").exists(),
            _text(self.root / "dmem.capacity"),
            _text(self.proc / "cgroups"),
            _text(self.proc / "driver/nvidia/params"),
            devices_with_hook(self._specs(), self.container.cdi_kind) if is_cdi else {},
        )

    def why(self, uuid: str) -> WhyNot | None:
        """Why a card that was checked cannot limit."""
        if uuid in self.unable:
            return self.unable[uuid]
        if self.fuse.blown == self.driver:
            return hook_fails(self.driver)
        return WhyNot(NO_DEVICE, self.devices.error) if self.devices is not None and self.devices.error else None

    async def limit(self, cards: Cards, uid: str) -> Answered:
        """The limits for a container of a pod with these cards. Raises NoCandidateError if it needs some."""
        uuids = {card.index: card.uuid for card in self.node.cards.cards}
        given = [uuids.get(index, "") for index, _ in cards]
        found = Answered()
        if self.checked.issuperset(given) and not any(map(self.why, given)):
            if self.devices is None:
                found = Answered(answered_mib(cards, self.node.cards, self.flags.slack))
            else:
                found = await _written(self.devices, uid, limits_mib(cards, self.node.cards, self.flags.slack), uuids)
        if found == Answered() and self.flags.is_required:
            raise NoCandidateError("the driver cannot limit the container to its share, and --memory-limit is require")
        return found

    async def look(self) -> None:
        """Verify the limit of each container that runs, and publish the result."""
        for failure in self._see_failures():
            _LOG.warning("%s pod=%s/%s", failure.text, failure.pod.metadata.namespace, failure.pod.metadata.name)
            await self.events.record("Pod", failure.pod.metadata, wire.EVENT_LIMIT_FAILS, failure.text)
        await self.keep_devices()
        pods, node = self.pods.in_admission_order(), self.node.cards
        containers = running_containers(pods, node, self.flags.slack)
        await self._find_folders(containers)
        readings = await self._readings(containers)
        shown = {pod.metadata.uid: pod.shown.get(wire.ANNOTATION_LIMITS) for pod in pods}
        why = {card.index: found for card in node.cards if (found := self.why(card.uuid)) is not None}
        # The Node has the reason of a card that cannot limit.
        self.last = verify(self.last, shown, containers, readings, self.clock(), why)
        self.metrics.limits = self.last.counts
        self.node.show_limits(limits_condition(why, self.last.counts))
        by_uid = {pod.metadata.uid: pod for pod in pods}
        for news in self.last.news:
            event, text = limit_texts(news)
            await self.events.record("Pod", by_uid[news.uid].metadata, event, text)
        for uid, limits in self.last.limits.items():
            await self._publish(by_uid[uid], encode_limits(limits))

    async def keep_devices(self) -> None:
        """The devices of all pods are in the file: it may have been lost, or its pods have ended."""
        if self.devices is None:
            return
        pods, node, booked = self.pods.in_admission_order(), self.node.cards, defaultdict[LimitDevice, set[str]](set)
        uuids = {card.index: card.uuid for card in node.cards}
        for pod in pods:
            for limits in booked_limits(pod, node, self.flags.slack).values():
                for index, mib in limits.items():
                    booked[LimitDevice(uuids[index], mib)].add(pod.metadata.uid)
        was = self.devices.error
        try:
            await self.devices.keep(
                {pod.metadata.uid for pod in pods}, {one: frozenset(uids) for one, uids in booked.items()}
            )
        except OSError:
            _LOG.debug("%s", self.devices.error)
        if self.devices.error != was:
            self._require()
            self.node.refresh()

    def _see_failures(self) -> list[HookFailure]:
        """The failures of the hook that are news; the fuse counts them."""
        before, found = self.fuse, hook_failures(self.pods.in_admission_order())
        self.fuse = before.after(found, self.driver)
        if self.fuse.blown != before.blown:
            self._require()
            self.node.refresh()
        return [one for one in found if one.key not in before.seen]

    def _require(self) -> None:
        """Cards that cannot limit are unhealthy, if the operator wants that."""
        if self.flags.is_required:
            why = ((uuid, self.why(uuid)) for uuid in self.checked)
            self.health.unlimited = {uuid: one.reason for uuid, one in why if one is not None}

    async def _find_folders(self, containers: Iterable[RunningContainer]) -> None:
        ids = {one.id for one in containers}
        self.folders = {one: folder for one, folder in self.folders.items() if one in ids}
        if missing := ids - self.folders.keys():
            self.folders |= await asyncio.to_thread(control_groups, self.root, missing)

    async def _readings(self, containers: Iterable[RunningContainer]) -> Readings:
        uuids = {card.index: card.uuid for card in self.node.cards.cards}
        found = dict[tuple[str, int], tuple[int, int] | None]()
        for container in containers:
            folder = self.folders.get(container.id)
            for index in container.wanted:
                uuid = uuids.get(index, "")
                reason = self.unable[uuid].reason if uuid in self.unable else ""
                if reason == DRIVER_TOO_OLD:
                    found[container.id, index] = None
                elif folder is not None and uuid and reason != CGROUP_V1:
                    try:
                        question = functools.partial(NvmlSession.memory_limit, uuid=uuid, folder=folder)
                        found[container.id, index] = await self.nvml.ask(question)
                    except NvmlError as error:
                        self.folders.pop(container.id, None)
                        # That of a container that has just ended is no fault of the driver.
                        self.metrics.nvml_errors["limits"] += folder.exists()
                        _LOG.debug("limit not known uuid=%s folder=%s error=%s", uuid, folder, error)
        return found

    async def _publish(self, pod: KeptPod, text: str) -> None:
        if text == pod.shown.get(wire.ANNOTATION_LIMITS, "") or not self.budget.take(pod.metadata.uid, self.clock()):
            return
        try:
            self.pods.set(await self.client.annotate_pod(pod, {wire.ANNOTATION_LIMITS: text}))
        except NotFoundError:
            _LOG.debug("the pod has gone uid=%s", pod.metadata.uid)
        except ApiError as error:
            if str(error) != self.refusal:
                self.refusal = str(error)
                _LOG.warning("cannot write the limits of pod=%s error=%s", pod.metadata.name, error)

    def _specs(self) -> list[CdiSpec]:
        """The files of CDI that can be read; each is read again once it has changed."""
        found = dict[tuple[str, int, int], CdiSpec]()
        for folder in self.cdi_folders:
            for path in sorted((*folder.glob("*.json"), *folder.glob("*.yaml"))):
                try:
                    stat = path.stat()
                    key = str(path), stat.st_size, stat.st_mtime_ns
                    found[key] = self.specs.get(key) or msgspec.convert(decode_yaml(path.read_bytes()), CdiSpec)
                except (OSError, UnreadableError, msgspec.ValidationError) as error:
                    _LOG.debug("cannot read path=%s error=%s", path, error)
        self.specs = found
        return list(found.values())


async def _written(file: LimitDeviceFile, uid: str, limits: Mapping[int, int], uuids: Mapping[int, str]) -> Answered:
    """The devices of these limits, which the file has from now on; none if it cannot be written."""
    devices = [LimitDevice(uuids[index], mib) for index, mib in sorted(limits.items())]
    try:
        await file.add(uid, devices)
    except OSError:
        _LOG.warning("a container is not limited uid=%s: %s", uid, file.error)
        return Answered()
    return Answered(devices=tuple(one.full_name for one in devices))


def control_groups(root: Path, ids: Iterable[str]) -> dict[str, Path]:
    """The control group of each container of ``ids`` below the host's tree ``root``, whichever runtime and driver named it.

    The name has the id among others: ``ID``, ``crio-ID``, ``cri-containerd-ID.scope``, ``…:cri-containerd:ID``. (The kubelet's
    ``pod…`` above is not looked at: no two containers have one id.)
    """
    wanted, found = frozenset(ids), dict[str, Path]()
    for at, below, _ in os.walk(root):
        for name in tuple(below):
            # Beside CRI-O's group of a container is one of the program that watches it.
            if own := wanted.intersection(() if "conmon" in name else _WORD.findall(name)):
                # Groups that a container makes below its own do not count.
                below.remove(name)
                folder = Path(at, name)
                found[min(own)] = folder / _NESTED if (folder / _NESTED).is_dir() else folder
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
