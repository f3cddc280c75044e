"""The fixture ``gpu_cluster`` and the options of the cases, in a pytest of its own; and what the methods read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tracked_files import ROOT

POD = """
apiVersion: v1
kind: Pod
metadata: {name: trainer, labels: {app: trainer}}
spec:
  containers:
    - {name: trainer, image: cheyang/gpu-player, resources: {limits: {aliyun.com/gpu-mem: 12}}}
"""
SYNCHRONOUS = f"""
import pytest
POD = '''{POD}'''

@pytest.mark.gpu_nodes("1080ti", "a10x2")
def test_a_life(gpu_cluster):
    gpu_cluster.apply(POD)
    (pod,) = gpu_cluster.wait_running(selector="app=trainer")
    card = gpu_cluster.card(pod)
    assert (pod["spec"]["nodeName"], card.model, card.healthy) == ("node2", "NVIDIA A10", True)
    assert gpu_cluster.environment(pod)["ALIYUN_COM_GPU_MEM_CONTAINER"] == "12"
    gpu_cluster.make_unhealthy("node2", card.index)
    assert not gpu_cluster.card(pod).healthy
    gpu_cluster.make_healthy("node2", card.index)
    gpu_cluster.restart_kubelet("node2")
    gpu_cluster.restart_device_plugin("node2")
    gpu_cluster.restart_extender()
    gpu_cluster.apply(POD.replace("trainer", "second"))
    gpu_cluster.apply(POD.replace("trainer", "third"))
    gpu_cluster.wait_running("second")
    assert gpu_cluster.card("second").uuid != card.uuid
    assert "0/2 nodes" in gpu_cluster.wait_pending("third", "gpu-mem")
    assert "0/2 nodes" in gpu_cluster.wait_pending(selector="app=third", reason="gpu-mem")
    for wait in (lambda: gpu_cluster.wait_running("third", seconds=0.1), lambda: gpu_cluster.wait_until(list, seconds=0.1)):
        with pytest.raises(AssertionError) as failed:
            wait()
        assert str(failed.value).startswith("third waits: 0/2 nodes are available")
        assert "\\nafter 0" in str(failed.value)
    with pytest.raises(AssertionError, match="2 of the pods app=third waits: "):
        gpu_cluster.wait_pending(selector="app=third", count=2, seconds=0.1)
    with pytest.raises(Exception, match="run with --gpu-cluster controlplane, and apply it by kubectl"):
        gpu_cluster.apply(dict(kind="Widget", apiVersion="example.com/v1", metadata=dict(name="w")))
    gpu_cluster.delete_pod("second")
    gpu_cluster.wait_running("third")
    gpu_cluster.remove_card("node2", gpu_cluster.card("third").index)
    assert gpu_cluster.program_log("node2") and gpu_cluster.program_log()
"""


def run(folder: Path, text: str, *options: str) -> str:
    """The output of a pytest in a folder with this test."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    argv = [sys.executable, "-m", "pytest", "-q", *options]
    variables = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_synchronous_test_does_what_a_chart_author_does(tmp_path: Path) -> None:
    """Manifests, the card and variables of a container, unhealthy cards, and restarts of each program."""
    assert "1 passed" in (output := run(tmp_path, SYNCHRONOUS, "-p", "e2e.pytest_plugin.gpu_options")), output


def test_a_start_of_pytest_imports_nothing_of_the_harness() -> None:
    """A user that has the plugin installed, and does not use it, waits for no import."""
    code = "import pytest, sys; known = set(sys.modules); import e2e.pytest_plugin.gpu_options; print(*set(sys.modules) - known)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) == {"e2e", "e2e.pytest_plugin", "e2e.pytest_plugin.gpu_options"}


CONFTEST = """
from e2e.pytest_plugin import suite_options

RENAMED = {}

def pytest_addoption(parser):
    group = suite_options._Parser(parser, RENAMED).getgroup("gpushare")
    group.addoption("--bursts", type=int)
    group.addoption("--burst-seed", type=int, default=3)
    parser.addoption("OTHER", default="theirs")

def pytest_configure(config):
    config.pluginmanager.register(suite_options._Suite(RENAMED))
"""


@pytest.mark.parametrize("name", ["--bursts", "--burst-seed"])
def test_an_option_of_another_plugin_is_not_taken_for_ours(tmp_path: Path, name: str) -> None:
    """A case would read that plugin's value, so the run ends with its name."""
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("OTHER", name))

    assert f"another plugin has an option {name}" in run(tmp_path, "", "--gpu-bursts=7")
