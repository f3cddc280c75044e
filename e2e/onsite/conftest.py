"""The site of the cases, and one case for each node."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, PODS
from clusters.provider import Cluster, ClusterError
from clusters.providers import BARE, EXISTING
from e2e import real_kubelets
from e2e.onsite import site_results
from e2e.onsite.case_run import LOG_FILE, console_of
from e2e.onsite.foreign_cluster import ForeignCluster
from e2e.onsite.gaps import leaves_gap, not_judged
from e2e.onsite.machine_recording import RecordingError
from e2e.onsite.site_nodes import discovered, names_of
from e2e.onsite.site_options import permissions
from e2e.onsite.tenancy import Tenancy, TenancyError
from e2e.site import SiteError
from e2e.site.kubeconfig_choice import connection
from e2e.site.picture import Picture
from e2e.site.unexpected import sentence

# Nodes of a cluster of our own: more of them would show nothing new about the cases.
_MOST_NODES: Final = 3
# The exit code of a session in which no case could be tried; pytest itself has no such code.
_NOTHING_TRIED: Final = 9
_CASES: Final = Path(__file__).parent / "test_onsite.py"
_NAMES: Final = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Ask for the nodes first, because an error among the files has a traceback."""
    with _or_nothing_is_tried(session.config):
        _names(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each node."""
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", _names(metafunc.config), scope="session")


def _names(config: pytest.Config) -> list[str]:
    named = names_of(config.getoption("--nodes"))
    if config.getoption("--cluster") != EXISTING:
        return named or [node.name for node in real_kubelets.session_nodes(config) if node.box != "none"][:_MOST_NODES]
    if _NAMES not in config.stash:
        config.stash[_NAMES] = asyncio.run(_ask_for_names(config, named))
    return config.stash[_NAMES]


async def _ask_for_names(config: pytest.Config, named: list[str]) -> list[str]:
    try:
        async with ApiClient(connection(config.option)) as api:
            return discovered(Picture(await api.list(NODES), await api.list(PODS)), named)
    except ValueError as error:
        raise ClusterError(str(error)) from error


@contextlib.contextmanager
def _or_nothing_is_tried(config: pytest.Config) -> Iterator[None]:
    """End a run for a report by an error before its first case: once, and not for each case."""
    try:
        yield
    except (TenancyError, ClusterError, ApiError, TransportError, SiteError, RecordingError, OSError) as error:
        if config.getoption("--site-report") is None:
            raise
        # A clean-up that failed, too, hides why there was one.
        why = f"{error.__context__}; {error}" if isinstance(error.__context__, TenancyError) else str(error)
        pytest.exit(f"nothing was tried: {why}", returncode=_NOTHING_TRIED)


@pytest.fixture(scope="module")
def site_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The session's cluster, if it can be had."""
    with _or_nothing_is_tried(request.config):
        cluster: Cluster = request.getfixturevalue("cluster")
    return cluster


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(request: pytest.FixtureRequest, site_cluster: Cluster) -> AsyncIterator[ForeignCluster]:
    """The session's cluster, with a namespace that no other run has; what it was like goes into the report."""
    config = request.config
    report = _reporter(config)
    tenancy = Tenancy(site_cluster.api, secrets.token_hex(4), report)
    with _or_nothing_is_tried(config):
        async with contextlib.AsyncExitStack() as entered:
            visit = await site_results.look_before(config, site_cluster.api, _names(config))
            await entered.enter_async_context(tenancy.held())
            clean_up = entered.pop_all()
    config.stash[site_results.VISIT] = visit
    yield ForeignCluster(
        site_cluster,
        tenancy,
        permissions(config),
        simulated_nodes={node.name for node in visit.site.nodes if node.are_cards_simulated},
        hides_cards=config.getoption("--cluster") != BARE,
        runs_in_pods=config.getoption("--cluster") not in real_kubelets.STAND_INS,
        usage_nodes={one.name for one in real_kubelets.session_nodes(config) if "usage" in one.plugin_options},
        report=report,
    )
    try:
        await clean_up.aclose()
    except BaseException as error:
        site_results.note_clean_up(config, visit, error)
    await site_results.look_behind(config, site_cluster.api, visit)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A case that lost its namespace, its rights or its API server shows nothing about sharing."""
    try:
        return (yield)
    except Exception as error:
        if item.path == _CASES and leaves_gap(error):
            not_judged(sentence(error, LOG_FILE))
        raise


@pytest_asyncio.fixture(loop_scope="session")
async def clean(site: ForeignCluster) -> AsyncIterator[None]:
    """The pods of a case are gone before the next one."""
    async with site.clean():
        yield


def _reporter(config: pytest.Config) -> Callable[[str], None]:
    """Write lines past pytest, which holds back what tests print until they end."""
    if (console := console_of(config)) is not None:
        return console.say
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return terminal.write_line if terminal is not None else lambda line: None
