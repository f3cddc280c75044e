"""Promises of a validation's own process: its exit code and its report, however the run ends."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from clusters.provider import Cluster
from e2e.__main__ import main
from e2e.commands import python
from e2e.onsite.case_run import report_folder
from e2e.onsite.tenancy import NAMESPACE, RUN_LABEL
from e2e.report.verdict_files import read
from e2e.tenant import granted, remove_namespace

_RUN: Final = "import sys; from pathlib import Path; from e2e.onsite.case_run import run_cases; "
_CALL: Final = "sys.exit(run_cases(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))"
_FILES: Final = {"site_report.json", "site_report.html", "site_report.xml", "validation.log"}
_READS: Final = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}]
_NAMESPACES: Final = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]}]
_CLASSES: Final = [
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["get", "create", "delete"]}
]
_LEASES: Final = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch"]}]


class Run:
    """Runs of the cases in a process of their own, into one folder."""

    def __init__(self, folder: Path) -> None:
        self.report = folder / "report"
        self._folder = folder

    async def of(self, cluster: str, *options: str, plugin: str = "") -> tuple[int, str]:
        """The exit code and the output; ``plugin`` is Python that pytest loads."""
        (self._folder / "extra_plugin.py").write_text(f"import os, signal, warnings\nimport pytest\n\n{plugin}")
        arguments = (cluster, str(self.report), "-p", "extra_plugin", *options)
        folders = os.pathsep.join((str(Path.cwd()), str(self._folder)))
        done = await python("-c", _RUN + _CALL, *arguments, variables={"PYTHONPATH": folders})
        return done.code, done.said

    def results(self) -> dict[str, tuple[str, str]]:
        """The outcome and the reason of each case of the one node."""
        cases = read(self.report / "site_report.json").cases
        return {name: (one.outcome, one.reason) for name, case in cases.items() for one in case.verdicts.values()}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """An empty folder."""
    return Run(tmp_path)


async def options_of(cluster: Cluster, stack: AsyncExitStack, account: str, rules: list[dict[str, Any]]) -> list[str]:
    """The options of a run with these rights on the session's cluster, in which no pod is created."""
    await stack.enter_async_context(granted(cluster.api, "kube-system", account, rules, in_all_namespaces=True))
    kubeconfig = await cluster.kubeconfig_of(f"kube-system/{account}")
    return ["--yes", f"--kubeconfig={kubeconfig}", "--max-pods=0", "--nodes=a1"]


@pytest.mark.thorough("a run on a cluster of its own")
async def test_each_failure_is_a_sentence_and_the_log_has_it(run: Run) -> None:
    """The output and the page have neither a traceback nor the name of a function; the log has both.

    A lost lease, a warning and the time limits of this repository's own tests are no failures; an error behind a skip is one.
    """
    plugin = """@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    from e2e.onsite.tenancy import TenancyError
    warnings.warn("a library is old")
    if "amounts" in pyfuncitem.name:
        raise ExceptionGroup("unhandled errors in a TaskGroup", [KeyError("status")])
    if "together" in pyfuncitem.name:
        raise TenancyError("run other took the lease of this one")
    if "nvml" in pyfuncitem.name:
        pytest.skip("not judged: no room")
    assert [1] == [2]

@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    if "nvml" in item.name:
        raise RuntimeError("its pods are left")
"""
    chosen = ("--nodes", "a1", "-k", "it_got or amounts or together or nvml_keeps", "-o", "timeout=0.01")
    code, output = await run.of("embedded", *chosen, plugin=plugin)
    page, log = ((run.report / name).read_text() for name in ("site_report.html", "validation.log"))
    details = "validation.log has the details"

    assert code == 3, output
    assert {path.name for path in run.report.iterdir()} == _FILES
    assert run.results() == {
        "test_a_pod_runs_on_the_card_that_it_got": (
            "failed",
            "what was seen is not what was expected; validation.log has both",
        ),
        "test_containers_of_a_pod_get_their_amounts": (
            "failed",
            f"an unexpected error ended the check (KeyError: 'status'); {details}",
        ),
        "test_pods_that_run_together_fit_the_cards": ("not judged", "run other took the lease of this one"),
        "test_nvml_keeps_the_promises_of_simulated_cards": (
            "failed",
            f"an unexpected error ended the check (RuntimeError: its pods are left); {details}",
        ),
    }
    assert "FAILED          a1: a pod runs on the card that it got: what was seen is not what was expected; " in output
    assert f"The details are in {run.report / 'validation.log'}." in output
    assert [text for text in (output, page) if "Traceback" in text or "pytest_pyfunc_call" in text] == []
    assert "assert [1] == [2]" in log
    assert "KeyError: 'status'" in log


def test_an_old_report_is_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that ends early leaves no older verdict in its folder; if that cannot be written, nothing is looked at or tried."""
    monkeypatch.chdir(tmp_path)
    Path("report").mkdir()
    for name in ("site_report.json", "mine"):
        (tmp_path / "report" / name).touch()

    assert report_folder(Path("report")) == tmp_path / "report"
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["mine"]
    (tmp_path / "report" / "site_report.json").mkdir()
    assert main(["validate", "--yes", "--kubeconfig", "none", "--report", "report"]) == 1
    assert "validate: nothing was tried: no report can be written into" in capsys.readouterr().err


async def test_a_right_that_is_missing_is_one_error(run: Run, cluster: Cluster) -> None:
    """An account that may not read pods tries nothing, and the error names what it may not."""
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
    async with AsyncExitStack() as stack:
        code, output = await run.of("existing", *await options_of(cluster, stack, "reads-nodes", rules))

    assert code == 1, output
    assert len([line for line in output.splitlines() if "nothing was tried: " in line]) == 1, output
    assert 'cannot list resource "pods"' in output
    assert "Traceback" not in output
    assert "site_report.json" not in [path.name for path in run.report.glob("*")]


async def test_a_clean_up_that_fails_fails_the_run(run: Run, cluster: Cluster) -> None:
    """It is a result of its own, with the way to what is left, even if no case ran."""
    rules = [*_READS, *_NAMESPACES, *_CLASSES, *_LEASES]
    async with AsyncExitStack() as stack:
        # It leaves the namespace.
        stack.push_async_callback(remove_namespace, cluster.api, NAMESPACE)
        code, output = await run.of("existing", *await options_of(cluster, stack, "leaves", rules))
    assert code == 3, output
    results = run.results()
    outcome, reason = results.pop("clean-up")

    assert {one for one, _ in results.values()} == {"not applicable", "not judged"}
    assert any("--max-pods is 0" in why for _, why in results.values())
    assert outcome == "failed"
    assert f"remove it with: kubectl delete namespaces --selector {RUN_LABEL}=" in reason
    assert "forbidden" in reason
    assert f"clean-up: {reason}" in output
    assert f"`kubectl get pods,leases --namespace {NAMESPACE}` shows it, and the next run removes it" in reason
