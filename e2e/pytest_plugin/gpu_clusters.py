"""The clusters of a test session: a new one for each test, or one for all tests that ask for the same nodes."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError, NodeSpec
from clusters.providers import EXISTING, KIND, Choices, make_cluster
from clusters.targets import load_target
from e2e.pytest_plugin.gpu_cluster import GpuCluster, LoopThread
from e2e.site.kubeconfig_choice import kubeconfigs
from fake_nvml.box import box_names, catalogue

Nodes = Sequence[str | Mapping[str, Any]]
_SESSION: Final = "session"
DEFAULT: Final = ("t4x2",)
# The branch of a box that is only named by its cards.
_DRIVER: Final = "580"
_COUNTED: Final = re.compile(r"(?P<model>.+?)(?:x(?P<count>[1-9]\d?))?")


class GpuClusters:
    """``option`` answers a command-line option; what ``stack`` holds ends with the session."""

    def __init__(self, option: Callable[[str], Any], stack: ExitStack) -> None:
        self._option = option
        self._stack = stack
        self._kind: str = option("--gpu-cluster")
        # An existing cluster is one for all, whatever is asked for.
        per = option("--gpu-cluster-per") or (_SESSION if self._kind == KIND else "test")
        self._is_shared = per == _SESSION or self._kind == EXISTING
        self._folder = stack.enter_context(scratch_folder())
        self._kept: dict[tuple[str, str], GpuCluster] = {}
        self._numbers = itertools.count(1)

    @contextmanager
    def of_test(self, nodes: Nodes, target: str = "") -> Iterator[GpuCluster]:
        """The cluster for one test. A shared one has a namespace for the test, which goes with it."""
        if not self._is_shared:
            with self.new(nodes, target) as cluster:
                yield cluster
            return
        key = ("" if self._kind == EXISTING else repr(self._specs(nodes)), target)
        if key not in self._kept:
            self._kept[key] = self._stack.enter_context(self.new(nodes, target))
        with self._kept[key].own_namespace(f"gpu-test-{os.getpid()}-{next(self._numbers)}") as cluster:
            yield cluster

    @contextmanager
    def new(self, nodes: Nodes, target: str = "") -> Iterator[GpuCluster]:
        """A cluster of its own. Raises ClusterError with the reason why there is none."""
        specs = [] if self._kind == EXISTING else self._specs(nodes)
        chosen = load_target(target or self._option("--gpu-target"))
        choices = self._choices()
        with LoopThread() as loop:
            # The cluster is made in the loop in which it runs, because its connections belong to that loop.
            cluster = loop.call(lambda: make_cluster(self._kind, specs, chosen, choices))
            loop.run(cluster.start())
            try:
                yield GpuCluster(cluster, loop, self._kind, [spec.name for spec in specs], choices.environment)
            finally:
                loop.run(cluster.stop())

    def _specs(self, nodes: Nodes) -> list[NodeSpec]:
        return node_specs(nodes, self._folder)

    def _choices(self) -> Choices:
        minor, named = self._option("--gpu-kubernetes"), self._option("--gpu-kubeconfig")
        return Choices(
            dict(os.environ),
            **({"kubernetes": minor} if minor else {}),
            node_image=self._option("--gpu-node-image"),
            image_base=self._option("--gpu-image-base"),
            kubeconfigs=kubeconfigs(named) if self._kind == EXISTING else (),
            context=self._option("--gpu-context"),
        )


def node_specs(wanted: Sequence[str | Mapping[str, Any]], folder: Path) -> list[NodeSpec]:
    """The nodes; boxes that have no file get one in ``folder``. Raises ClusterError."""
    given = [{"box": node} if isinstance(node, str) else dict(node) for node in wanted or DEFAULT]
    specs = []
    for number, fields in enumerate(given, start=1):
        box = str(fields.get("box", "none"))
        if box != "none" and box not in box_names() and not Path(box).is_file():
            fields["box"] = str(_written(box_of(box, catalogue()), folder / f"{box}.yaml"))
        try:
            specs.append(msgspec.convert({"name": f"node{number}", **fields}, NodeSpec))
        except msgspec.ValidationError as error:
            raise ClusterError(f"gpu_nodes: node {number} is {fields}: {error}") from error
    return specs


def box_of(text: str, models: Collection[str]) -> dict[str, Any]:
    """The box that ``a10x3`` or ``1080ti`` names: a model, whose letters before the number may be left out, and a count.

    Raises ClusterError unless it is one model.
    """
    match = _COUNTED.fullmatch(text)
    name, count = (match["model"], int(match["count"] or 1)) if match else (text, 1)
    found = {model for model in models if name in (model, model.removeprefix("gtx"), model.removeprefix("rtx"))}
    if len(found) != 1:
        raise ClusterError(
            f"gpu_nodes: {text!r} is no box, no file and no model with a count; boxes: {', '.join(box_names())}; "
            f"models: {', '.join(sorted(models))}"
        )
    return {"driver": _DRIVER, "cards": [{"model": found.pop(), "count": count}]}


def _written(box: Mapping[str, Any], path: Path) -> Path:
    path.write_text(yaml.safe_dump(box), encoding="utf-8")
    return path
