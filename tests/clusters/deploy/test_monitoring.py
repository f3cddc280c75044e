"""Promises of components/monitoring: each alert fires for its fault and is silent without it, on series that the programs have."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters.deploy.reading import DASHBOARD, RULES

ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
CASES = yaml.safe_load(Path(__file__).with_name("alert_cases.yaml").read_text())
REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"


def shown() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def promtool(*arguments: str | Path) -> None:
    """Run it; its output is the failure."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool to judge the rules with: Debian has it in the package prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def filled(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda name: labels[name[1]], text)


def as_promtool_has_it(case: dict[str, Any]) -> list[dict[str, Any]]:
    rule = ALERTS[case["alert"]]
    description = filled(rule["annotations"]["description"], case["labels"])
    alert = {
        "exp_labels": case["labels"] | rule["labels"],
        "exp_annotations": {"summary": case["summary"], "description": description},
    }
    return [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in case[name].items()],
            "alert_rule_test": [{"eval_time": case["at"], "alertname": case["alert"], "exp_alerts": expected}],
        }
        for name, expected in (("fires", [alert]), ("silent", []))
    ]


@pytest.mark.thorough("promtool opens a database for each case")
def test_each_alert_fires_for_its_fault_alone(tmp_path: Path) -> None:
    """promtool evaluates the rules on the series of each case."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    tests = [one for case in CASES for one in as_promtool_has_it(case)]
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(whole))

    promtool("test", "rules", tmp_path / "tests.yaml")


def test_prometheus_understands_each_panel(tmp_path: Path) -> None:
    """An expression that does not parse would be an empty panel."""
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(shown())]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    promtool("check", "rules", tmp_path / "panels.yaml")


def test_each_alert_has_a_case() -> None:
    """An alert without a case could never fire."""
    assert [case["alert"] for case in CASES] == list(ALERTS)


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in ALERTS.values()), *shown()])
def test_each_expression_names_series_that_exist(expression: str) -> None:
    """Series and labels are those of the reference page or of kube-state-metrics, or labels that a scrape adds."""
    rows = re.findall(r"(?m)^\| `(gpushare_\w+)` \| (\w+) \| ([^|]*) \|", REFERENCE.read_text())
    known: dict[str, set[str]] = {"kube_node_status_condition": {"condition", "status"}}
    for name, kind, labels in rows:
        for series in (f"{name}_bucket", f"{name}_sum", f"{name}_count") if kind == "histogram" else (name,):
            known.setdefault(series, set()).update(label.strip() for label in labels.split(","))
    named = set(re.findall(r"(?:gpushare|kube)_\w+", expression))
    by_labels = re.findall(r"(?:by|on) \(([^)]*)\)", expression) + re.findall(r"(\w+)!?=~?\"", expression)
    labels = {label.strip() for listed in by_labels for label in listed.split(",")}

    assert named
    assert named <= known.keys()
    # `node` of the plugin's series comes from its ServiceMonitor.
    assert labels <= {"instance", "le", "node"}.union(*(known[name] for name in named))
