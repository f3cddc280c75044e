"""The clusters of a test session: a new one for each test, or one for all tests that ask for the same nodes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from clusters.processes.scratch import scratch_folder
from clusters.provider import NodeSpec
from clusters.providers import EXISTING, KIND, Choices, make_cluster
from clusters.targets import load_target
from e2e.pytest_plugin.gpu_cluster import GpuCluster
from e2e.pytest_plugin.loop_thread import LoopThread
from e2e.pytest_plugin.wanted_nodes import node_specs
from e2e.site.kubeconfig_choice import kubeconfigs

Nodes = Sequence[str | Mapping[str, Any]]
_SESSION: Final = "session"


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
