"""Loaded at each start of pytest, cluster or not: so it imports nothing of ours before a test asks for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from e2e.pytest_plugin.gpu_cluster import GpuCluster
    from e2e.pytest_plugin.gpu_clusters import GpuClusters

# The cases, as `pytest --pyargs` names them.
_SUITE = f"{__package__}.e2e"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Each begins with ``--gpu-``."""
    group = parser.getgroup("gpushare", "clusters with simulated GPUs (pytest-gpushare)")
    group.addoption(
        "--gpu-cluster",
        default="embedded",
        choices=("embedded", "controlplane", "kind", "existing"),
        help="kind of cluster: in this process; the real control plane; real kubelets; your own (default: embedded)",
    )
    group.addoption(
        "--gpu-cluster-per",
        choices=("test", "session"),
        help="a new cluster for each test, or one for all tests with the same nodes (default: test; session on kind)",
    )
    group.addoption(
        "--gpu-target", default="gpushare", metavar="NAME|FILE", help="whose programs run (default: gpushare)"
    )
    group.addoption("--gpu-kubernetes", metavar="MINOR", help="minor of a real control plane (default: the newest)")
    group.addoption("--gpu-node-image", default="", metavar="IMAGE", help="image of kind's nodes")
    group.addoption("--gpu-image-base", default="", metavar="IMAGE", help="image that kind's programs are built on")
    group.addoption(
        "--gpu-kubeconfig", type=Path, metavar="FILE", help="of an existing cluster (default: as kubectl finds it)"
    )
    group.addoption("--gpu-context", default="", metavar="NAME", help="context of the kubeconfig")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """``--pyargs`` reads no options of the package that it names, so the suite's are added here."""
    if any(word == _SUITE or word.startswith((f"{_SUITE}.", f"{_SUITE}::")) for word in args):
        from e2e.pytest_plugin import suite_options

        suite_options.add_to(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        "gpu_nodes(*nodes, target=NAME): the nodes of the fixture gpu_cluster: the cards of each (t4x2, 1080ti, none, the file "
        "of a box), or a mapping with more (name, box, driver, plugin_arguments); default: one node with two T4",
    )


@pytest.fixture(scope="session")
def _gpu_clusters(request: pytest.FixtureRequest) -> Iterator[GpuClusters]:
    from e2e.pytest_plugin.gpu_clusters import GpuClusters

    with ExitStack() as stack:
        yield GpuClusters(request.config.getoption, stack)


@pytest.fixture(scope="session")
def make_gpu_cluster(_gpu_clusters: GpuClusters) -> Callable[..., AbstractContextManager[GpuCluster]]:
    """For fixtures of your own: ``with make_gpu_cluster("t4x2", "none") as cluster: …``."""

    @contextmanager
    def make(*nodes: Any, target: str = "") -> Iterator[GpuCluster]:
        with _gpu_clusters.new(nodes, target) as cluster:
            yield cluster

    return make


@pytest.fixture
def gpu_cluster(request: pytest.FixtureRequest, _gpu_clusters: GpuClusters) -> Iterator[GpuCluster]:
    """A running cluster with the nodes of the marker ``gpu_nodes``; see ``pytest_gpushare.gpu_cluster.GpuCluster``."""
    mark = request.node.get_closest_marker("gpu_nodes")
    nodes, settings = (mark.args, mark.kwargs) if mark is not None else ((), {})
    with _gpu_clusters.of_test(nodes, **settings) as cluster:
        yield cluster
