"""Promises of clusters.provider, targets and waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.provider import ClusterError, NodeSpec, load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import load_target

SIMULATED = Path(__file__).parents[2] / "clusters" / "simulated"


@pytest.mark.parametrize("path", sorted(SIMULATED.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_clusters_can_be_read(path: Path) -> None:
    """Every file, and each box that it names is there."""
    boxes = {box.stem for box in (SIMULATED.parents[1] / "fake_nvml" / "boxes").glob("*.yaml")}

    assert all(node.box in boxes for node in load_nodes(path))


def test_numbers_of_a_nodes_file_stay_as_written(tmp_path: Path) -> None:
    """A driver, an amount, a label and a flag need no quotes."""
    text = "nodes: [{name: a, driver: 418.10, cpu: 4, labels: {zone: 1, gpu: true}, plugin_arguments: [--slots, 2]}]"
    (tmp_path / "n.yaml").write_text(text)
    labels = {"zone": "1", "gpu": "true"}
    expected = NodeSpec("a", driver="418.10", cpu="4", labels=labels, plugin_arguments=("--slots", "2"))

    assert load_nodes(tmp_path / "n.yaml") == [expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file"),
        ("", "Expected `object`"),
        ("nodes: 3", r"at `\$\.nodes`"),
        ("nodes: []", r"length >= 1 - at `\$\.nodes`"),
        ("nodes: [{name: a}, {name: a}]", "a is the name of several nodes"),
        ("nodes: [{nam: a}]", "unknown field `nam`"),
        ("nodes: [{name: a, box: {t4: 2}}]", r"at `\$\.nodes\[0\]\.box`"),
        ("nodes: [{name: ../a}]", "matching regex"),
        ("nodes: [{name: a..b}]", "matching regex"),
        ("nodes: [{name: " + "a" * 254 + "}]", "length <= 253"),
        ("[", "while parsing"),
        ("nodes: &a [*a]", "not a list of nodes"),
    ],
)
def test_a_bad_nodes_file_is_refused_with_its_reason(tmp_path: Path, text: str | None, reason: str) -> None:
    """The error names the file and the place in it."""
    if text is not None:
        (tmp_path / "n.yaml").write_text(text)
    with pytest.raises(ClusterError, match=rf"n\.yaml: .*{reason}"):
        load_nodes(tmp_path / "n.yaml")


def test_an_unknown_placeholder_is_an_error() -> None:
    """The error for a placeholder without a value names it."""
    with pytest.raises(ClusterError, match="kubeconfig"):
        load_target("gpushare").extender.command(port="1")


def test_unknown_names_list_the_known() -> None:
    """Targets and providers."""
    with pytest.raises(ClusterError, match="gpushare"):
        load_target("nope")
    with pytest.raises(ClusterError, match="embedded"):
        make_cluster("nope", [], load_target("gpushare"), {})  # type: ignore[arg-type]  # refused before any choice is read


@pytest.mark.parametrize("name", ["controlplane", "kind"])
def test_late_watches_are_for_the_embedded_cluster(name: str) -> None:
    """Another provider refuses them, in place of running without."""
    with pytest.raises(ClusterError, match=f"provider {name}: only the embedded API server"):
        make_cluster(name, [], load_target("gpushare"), Choices({}, watch_lag=1.0))
