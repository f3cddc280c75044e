"""The page for when things go wrong has each refusal, policy, unhealthy card and exit code of the code, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
import yaml

from clusters import __main__ as clusters
from clusters.deploy.render import BASE
from e2e.onsite import case_run
from fake_nvml import main as fake_nvml
from gpushare.deviceplugin import main as device_plugin
from gpushare.deviceplugin.core import health
from gpushare.extender import bind, node_guard
from gpushare.extender import main as extender
from gpushare.extender.core import reservations
from gpushare.kubectl_gpushare import main as kubectl_gpushare
from gpushare.kubectl_inspect import main as inspect
from gpushare.model import cards
from gpushare.setup import main as setup
from tests.tracked_files import ROOT

TROUBLES: Final = (ROOT / "docs" / "troubleshooting.md").read_text()
# By program: a text of its code that has all its exit codes.
CODES: Final = {
    "gpushare-schd-extender": extender.main.__doc__,
    "gpushare-device-plugin": device_plugin.main.__doc__,
    "kubectl inspect gpushare": inspect.main.__doc__,
    "kubectl gpushare": kubectl_gpushare.main.__doc__,
    "gpushare-setup": setup.main.__doc__,
    "fake-nvml": (fake_nvml.__doc__ or "").partition("Exit codes:")[2],
    "python -m clusters": clusters.main.__doc__,
    "python -m e2e": case_run.CODES_HELP,
    # Not imported: Locust changes the standard library.
    "python -m load": (ROOT / "load" / "play" / "run_command.py")
    .read_text()
    .partition("Exit codes:")[2]
    .partition('"""')[0],
}


def section(heading: str) -> set[str]:
    """The texts in backticks that begin the rows of a section."""
    text = TROUBLES.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(.+?)`", text, re.MULTILINE))


def refusals(module: ModuleType) -> Iterator[str]:
    """The text of each error that a module raises, with … for what varies."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            parts = getattr(node.exc.args[0], "values", node.exc.args[:1])
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
            if text.strip("…: "):
                yield text


def test_each_reason_of_an_unhealthy_card_has_its_end() -> None:
    """The table of rules has the reasons that the device plugin publishes."""
    named = {**vars(cards), **vars(health)}
    reasons = {text for name, text in named.items() if name.startswith(("REASON_", "XID_PREFIX"))}
    reasons.add(health.NO_LIMIT_PREFIX.rstrip(": "))
    assert section("When an unhealthy card is healthy again") == reasons


def test_each_refusal_to_bind_has_a_row() -> None:
    """The table has a part of each text with which the extender refuses a bind, and no row is about another."""
    texts = [*refusals(bind), *refusals(node_guard), *refusals(reservations)]
    rows = section("Why a bind fails")
    assert [text for text in texts if not any(row in text for row in rows)] == []
    assert {row for row in rows if not any(row in text for text in texts)} == set()


def test_each_alert_has_a_row() -> None:
    """The table for the night has the alerts, and no other names of their kind."""
    groups = yaml.safe_load((BASE.parent / "components" / "monitoring" / "alerts.yaml").read_text())["spec"]["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    night = TROUBLES.partition("## At night\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(Gpushare\w+)`", night)) == alerts


def test_each_policy_that_refuses_has_a_row() -> None:
    """The table has the policies of base, each by its name."""
    documents = [one for path in BASE.glob("*-policy.yaml") for one in yaml.safe_load_all(path.read_text())]
    names = {one["metadata"]["name"] for one in documents if one["kind"] == "ValidatingAdmissionPolicy"}
    assert section("When a policy refuses a write") == names


@pytest.mark.parametrize("program", CODES)
def test_each_exit_code_has_a_row(program: str) -> None:
    """The table has the codes of the program's own text but 0, and no other."""
    codes = set(re.findall(r"\b\d+\b", str(CODES[program]))) - {"0"}
    assert codes
    assert set(re.findall(rf"^\| `{program}` \| (\d+) \|", TROUBLES, re.MULTILINE)) == codes
