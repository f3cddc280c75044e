"""Where the cases run and what they judge: ``--cluster``, ``--target``; one cluster for all, one namespace for each case."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from clusters.api.connection import TransportError
from clusters.controlplane.binaries import Binaries, locate, minors
from clusters.provider import EXTENDER, Cluster, ClusterError, NodeSpec
from clusters.providers import Choices
from clusters.targets import Target, load_target
from e2e import (
    distribution,
    kept_cluster,
    promises,
    real_kubelets,
    run_judge,
    short_failures,
    summary,
    target_capabilities,
    time_limits,
    whole_cluster,
)
from e2e.observer import Observer, OwnCluster, observing, own_cluster
from e2e.onsite import site_options, site_results
from e2e.report import verdict_plugin as verdicts
from e2e.site.kubeconfig_choice import kubeconfigs

_HERE = Path(__file__).parent
_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The choices of every run."""
    group = parser.getgroup("gpushare", "end-to-end cases")
    group.addoption("--cluster", default="embedded", help="kind of cluster to run on (default: embedded)")
    group.addoption(
        "--kubernetes",
        default=minors()[0],
        choices=minors(),
        help="minor of the real control plane (default: the newest)",
    )
    group.addoption("--assets", type=Path, help="folder with ready programs of a control plane (as KUBEBUILDER_ASSETS)")
    group.addoption(
        "--require-control-plane", action="store_true", help="fail, not skip, where the real control plane is not there"
    )
    group.addoption("--target", default="gpushare", help="what is judged: a name in e2e/targets, or a file")
    group.addoption("--node-image", default="", help="image of kind's nodes (default: the one that make kind builds)")
    group.addoption(
        "--image-base", default="", help="image that kind's programs are built on (default: of this machine's packages)"
    )
    # Here, not beside their cases: pytest reads options of the folder that it is given, and not of those in it.
    group.addoption(
        "--bursts", type=int, help="random bursts of pods (default: 40 on embedded, 20 on kind, 5 elsewhere)"
    )
    group.addoption("--burst-seed", type=int, help="seed of the first burst (default: the commit)")
    group.addoption("--burst", default="", metavar="SEED/NUMBER", help="play this burst alone")
    group.addoption(
        "--random-clusters",
        type=int,
        default=5,
        help="on how many simulate is compared with what happens (default: 5)",
    )
    group.addoption(
        "--watch-lag",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how late events of a watch come at most on the embedded cluster, each watch by its own time (default: 0)",
    )
    group.addoption("--chaos-seconds", type=float, default=60, help="how long programs are struck down (default: 60)")
    group.addoption(
        "--chaos-seed", type=int, default=1, help="seed of which program is struck when (default: %(default)s)"
    )
    real_kubelets.add_option(group)
    promises.add_options(group)
    kept_cluster.add_option(group)
    distribution.add_option(group)
    verdicts.add_options(group)
    site_options.add_options(group.addoption)
    group.addoption("--site-report", type=Path, help="folder of the report of cases on any cluster (HTML, JSON)")


def pytest_configure(config: pytest.Config) -> None:
    """The markers of the cases, the providers that run them, and the table of their verdicts."""
    real_kubelets.add_markers(config)
    target_capabilities.add_marker(config)
    kept_cluster.check(config)
    config.pluginmanager.register(distribution)
    config.pluginmanager.register(short_failures)
    config.pluginmanager.register(time_limits)
    config.pluginmanager.register(summary)
    config.pluginmanager.register(whole_cluster.WholeCluster(config), whole_cluster.NAME)
    config.pluginmanager.register(run_judge.RunJudge(), run_judge.NAME)
    site_options.check(config)
    config.pluginmanager.register(site_results.SiteResults(config, _HERE / "onsite"), site_results.NAME)
    config.pluginmanager.register(verdicts.Verdicts(config, _HERE), verdicts.NAME)
    config.pluginmanager.register(verdicts.Recorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All cases share the event loop in which the session's cluster lives; some are not for every kind of cluster."""
    cases = [item for item in items if item.path.is_relative_to(_HERE)]
    promises.sort_out(config, cases)
    if config.getoption("--profile"):
        items[:] = cases
    real_kubelets.sort_out(config, cases)
    target_capabilities.sort_out(config, cases)
    time_limits.cancel_late(cases)
    kept_cluster.prepare(config, cases)
    mark = pytest.mark.asyncio(loop_scope="session")
    for item in cases:
        if pytest_asyncio.is_async_test(item):
            item.add_marker(mark, append=False)


@pytest.fixture(scope="session")
def choices(request: pytest.FixtureRequest) -> Choices:
    """The environment, and which Kubernetes."""
    return Choices(
        dict(os.environ),
        request.config.getoption("--kubernetes"),
        request.config.getoption("--assets", default=None),
        node_image=request.config.getoption("--node-image"),
        image_base=request.config.getoption("--image-base"),
        watch_lag=request.config.getoption("--watch-lag", default=0.0),
        kubeconfigs=kubeconfigs(request.config.getoption("--kubeconfig")),
        context=request.config.getoption("--context"),
    )


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    """The target under test."""
    return load_target(request.config.getoption("--target"), os.environ)


@pytest.fixture(scope="session")
def slots_target(target: Target) -> Target:
    """The same programs with every node in slots mode; a case about both modes is not applicable to a target without it."""
    if not target.slots_target:
        pytest.skip(f"{target_capabilities.NOT_APPLICABLE}: target {target.name} names no slots_target")
    return load_target(target.slots_target, os.environ)


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest, choices: Choices) -> Binaries:
    """The programs of the real control plane; a case that needs them is skipped if they are missing."""
    try:
        return locate(choices.kubernetes, choices.environment, choices.assets)
    except ClusterError as error:
        if request.config.getoption("--require-control-plane"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest) -> list[NodeSpec]:
    """The nodes of the session's cluster. Cases name a1, a2 and b2."""
    return real_kubelets.session_nodes(request.config)


@pytest.fixture(scope="session")
def own(
    request: pytest.FixtureRequest, choices: Choices, target: Target, tmp_path_factory: pytest.TempPathFactory
) -> OwnCluster:
    """Makes a cluster of a case's or a module's own; the logs of its programs stay in a folder ``programs<number>``."""

    @asynccontextmanager
    async def make(nodes: Sequence[NodeSpec], other: Target | None = None) -> AsyncIterator[Cluster]:
        judged = other or target
        with target_capabilities.options_known(judged):
            nodes = [judged.spelt(node) for node in nodes]
        async with own_cluster(request.config.getoption("--cluster"), nodes, judged, choices) as cluster:
            try:
                yield cluster
            finally:
                folder = tmp_path_factory.mktemp("programs")
                for program, node in [("extender", None), *(("device_plugin", node.name) for node in nodes)]:
                    (folder / f"{program}-{node or 'all'}.log").write_text(cluster.log(program, node))

    return make


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(request: pytest.FixtureRequest, own: OwnCluster, nodes: list[NodeSpec]) -> AsyncIterator[Cluster]:
    """Nodes of mixed cards, with the target's programs."""
    async with own(nodes) as cluster:
        request.config.stash[verdicts.KUBERNETES] = (await cluster.api.request("GET", "/version"))["gitVersion"]
        yield cluster
        await whole_cluster.judge_at_end(request.config, cluster)
        await kept_cluster.keep(request, cluster)


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Cluster | None:
    """The session's cluster if its kubelets are real: one of a case's own would take a minute, and be as good."""
    is_stand_in = request.config.getoption("--cluster") in real_kubelets.STAND_INS
    return None if is_stand_in else request.getfixturevalue("cluster")


@pytest_asyncio.fixture(loop_scope="session")
async def observer(request: pytest.FixtureRequest, cluster: Cluster, target: Target) -> AsyncIterator[Observer]:
    """A namespace of the case's own; its pods are gone when the next case begins, and the extender answers then."""
    async with observing(cluster, f"case-{next(_NUMBERS)}") as observer:
        yield observer
        await kept_cluster.keep(request, cluster, observer.namespace)
        if target.extender_or_none is not None and request.config.getoption("--cluster") in real_kubelets.STAND_INS:
            try:
                await observer.inspect()
            except TransportError as error:
                await cluster.kill(EXTENDER)
                await cluster.launch(EXTENDER)
                pytest.fail(f"the extender answers no more after this case: {error}")
