"""The faults of kube-scheduler's file, judged by kube-scheduler itself; e2e/extender has it take the files that are shipped."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from clusters.controlplane.binaries import known, minors
from gpushare.setup.core.scheduler_files import scheduler_file
from tests.gpushare.setup.core.test_scheduler_files import edited


@pytest.fixture(params=minors())
def minor(request: pytest.FixtureRequest) -> str:
    """Each minor for which kube-scheduler is built."""
    if "kube-scheduler" not in known(request.param, os.environ):
        pytest.skip(f"no kube-scheduler: `make control-plane KUBERNETES={request.param}` builds it")
    return str(request.param)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (yaml.safe_dump(edited(36, enableHttps=False)), "unknown field"),
        (scheduler_file(24), "no kind .* is registered for version"),
    ],
    ids=["a field in another case", "an old version"],
)
def test_kube_scheduler_refuses_what_check_calls_a_fault(text: str, what: str, minor: str, tmp_path: Path) -> None:
    """A field in another case, and a version that the release has removed, stop a real kube-scheduler."""
    (tmp_path / "file.yaml").write_text(text)
    argv = [str(known(minor, os.environ)["kube-scheduler"]), f"--config={tmp_path}/file.yaml", "--secure-port=0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)

    assert done.returncode == 1
    assert re.search(what, done.stderr), done.stderr
