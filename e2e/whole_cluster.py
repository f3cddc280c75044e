"""The session's cluster is judged whole and once, when all cases have ended: a verdict of its own, and of no case.

So are the calls between device plugins and the kubelets of this process, each as it comes, so that no history is kept.

A case judges the nodes that its pods use. Other trouble (a node that stays in the extender's book, units of a pod that is gone)
would fail cases about another node. With pytest-xdist each process has a cluster of its own; its verdict goes to the process
that reports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from clusters.api import exchanges
from clusters.api.api_client import Object
from clusters.api.connection import Connection
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import NotReachedError, eventually
from clusters.kubelet.plugin_client import LISTENERS, PluginCall
from clusters.provider import Cluster, ClusterError
from clusters.providers import BARE, EXISTING
from e2e import spec
from e2e.checkers import UnknownError
from e2e.checkers.extender_answers import book_adds_up, book_beyond_cards, book_differs
from e2e.checkers.history import Asked, Cards, Entry, Finding, Judge, Listed, judge
from e2e.checkers.overcommit import over_booked, unreadable
from e2e.checkers.plugin_answers import PLUGIN_RULES
from e2e.observer import cards_of

NAME: Final = "gpushare-whole-cluster"
_PATH: Final = "e2e/whole_cluster.py"
# The findings on a session's cluster at its end, by the phase that reports them; no text if all was right.
VERDICT: Final = pytest.StashKey[dict[str, str]]()
# The key of a verdict among what a process of pytest-xdist hands over at its end.
_HANDED_OVER: Final = "gpushare_whole_cluster"
# Resources of judged calls; others belong to plugins that cases bring. PodResources has none.
_JUDGED: Final = (spec.RESOURCE_MEMORY, spec.RESOURCE_SLOT, "")
# The book follows the API within moments.
_SECONDS: Final = 20.0


async def judge_at_end(config: pytest.Config, cluster: Cluster) -> None:
    """Judge a cluster of ours, of which all cases have ended; a cluster of someone else holds what these cases know nothing of."""
    if config.getoption("--cluster") in (BARE, EXISTING):
        return
    reporter = config.pluginmanager.get_plugin(NAME)
    assert isinstance(reporter, WholeCluster)
    try:
        in_calls = "\n".join(map(str, reporter.call_findings()))
        config.stash[VERDICT] = {"call": in_calls}
        await eventually(lambda: look(cluster), lambda found: not found, "all of it is right", seconds=_SECONDS)
    except NotReachedError as error:
        config.stash[VERDICT] = {"call": f"{error}\n{in_calls}".rstrip()}
    except Exception as error:
        config.stash[VERDICT] = {"teardown": f"unknown: {error!r}"}


async def look(cluster: Cluster) -> list[Finding]:
    """All that is wrong on the cluster now."""
    nodes, pods = await cluster.api.list(NODES), await cluster.api.list(PODS)
    history: list[Entry] = [Listed(0.0, pods, nodes), *_cards(cluster, nodes)]
    with contextlib.suppress(ClusterError):  # there may be no extender
        url = cluster.extender_url() + spec.INSPECT
        async with Connection() as http:
            history.append(Asked(0.0, spec.INSPECT, None, (await http.request("GET", url)).json()))
    return judge(history, unreadable, over_booked, book_adds_up, book_beyond_cards, book_differs)


def _cards(cluster: Cluster, nodes: list[Object]) -> Iterator[Cards]:
    """The cards of each node that has a machine, in the unit in which it offers them."""
    for node in nodes:
        name, offered = node["metadata"]["name"], (node["status"].get("capacity") or {}).get(spec.RESOURCE_MEMORY)
        with contextlib.suppress(ClusterError):
            in_mib = cards_of(cluster, name, 1)
            is_mib = offered == str(sum(card.units for card in in_mib.values()))
            yield Cards(0.0, name, in_mib if is_mib else cards_of(cluster, name))


class WholeCluster:
    """Takes the noted calls, and reports the verdict of each process; register it with pytest's plugin manager under ``NAME``."""

    def __init__(self, config: pytest.Config) -> None:
        self._judge = Judge(*PLUGIN_RULES)
        self._crash: UnknownError | None = None
        self._config = config
        self._verdicts: dict[str, Mapping[str, str]] = {}

    def pytest_configure(self) -> None:
        """Listen to the calls, and to the commands to simulated cards."""
        LISTENERS.append(self.take_call)
        exchanges.LISTENERS.append(self.take_event)

    def pytest_unconfigure(self) -> None:
        """Listen no longer."""
        LISTENERS.remove(self.take_call)
        exchanges.LISTENERS.remove(self.take_event)

    def take_call(self, call: PluginCall) -> None:
        """Judge a call."""
        if call.resource in _JUDGED:
            self._take(call)

    def take_event(self, event: exchanges.Event) -> None:
        """Take a command to simulated cards."""
        if isinstance(event, exchanges.Injected):
            self._take(event)

    def _take(self, entry: Entry) -> None:
        """The kubelet that notes a call has no part in the crash of a rule."""
        try:
            self._judge.take(entry)
        except UnknownError as error:
            self._crash = error

    def call_findings(self) -> list[Finding]:
        """Those about the calls so far. Raises UnknownError if a rule failed in itself."""
        if self._crash is not None:
            raise self._crash
        return self._judge.findings

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist has ended."""
        verdict = getattr(node, "workeroutput", {}).get(_HANDED_OVER)
        if verdict:
            self._verdicts[node.gateway.id] = verdict

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand this process's verdict over, or report those of all."""
        own = self._config.stash.get(VERDICT, {})
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_HANDED_OVER] = own
            return
        if own:
            self._verdicts["main"] = own
        for process, verdict in sorted(self._verdicts.items()):
            for when, text in verdict.items():
                self._report(process, when, text)
                if text and session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _report(self, process: str, when: str, text: str) -> None:
        name = f"whole_cluster[{process}]"
        report = pytest.TestReport(
            nodeid=f"{_PATH}::{name}",
            location=(_PATH, None, name),
            keywords={},
            outcome="failed" if text else "passed",
            longrepr=text or None,
            when="call" if when == "call" else "teardown",
            user_properties=[("cluster", self._config.getoption("--cluster"))],
        )
        self._config.hook.pytest_runtest_logreport(report=report)
