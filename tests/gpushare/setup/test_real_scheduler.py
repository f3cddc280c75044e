"""The files of gpushare-setup, judged by kube-scheduler itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import trustme
import yaml

from clusters.controlplane.binaries import known, minors
from gpushare.setup.core.scheduler_files import Tls, scheduler_file
from tests.gpushare.setup.core.test_scheduler_files import edited

KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
    "current-context": "c",
}


@pytest.fixture(params=minors())
def minor(request: pytest.FixtureRequest) -> str:
    """Each minor for which kube-scheduler is built."""
    if "kube-scheduler" not in known(request.param, os.environ):
        pytest.skip(f"no kube-scheduler: `make control-plane KUBERNETES={request.param}` builds it")
    return str(request.param)


def read_by_scheduler(minor: str, folder: Path, text: str) -> tuple[int, str]:
    """Start kube-scheduler with the file, which it reads, writes as it understood it, and ends: exit code, file or errors."""
    (folder / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    (folder / "file.yaml").write_text(text)
    flags = [f"--config={folder / 'file.yaml'}", f"--write-config-to={folder / 'read.yaml'}", "--secure-port=0"]
    program = known(minor, os.environ)["kube-scheduler"]
    done = subprocess.run([program, *flags], capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    written = folder / "read.yaml"
    return done.returncode, written.read_text() if written.exists() else done.stderr


def pem_files(folder: Path) -> Tls:
    """kube-scheduler opens the files of TLS at its start."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    certificate = authority.issue_cert("kube-scheduler")
    certificate.private_key_pem.write_to_path(folder / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    return Tls(*(str(folder / name) for name in ("ca.crt", "tls.crt", "tls.key")))


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "TLS"])
def test_kube_scheduler_takes_the_file(minor: str, is_tls: bool, tmp_path: Path) -> None:
    """The scheduler of each release reads every field as it was meant."""
    tls = pem_files(tmp_path) if is_tls else None
    text = scheduler_file(int(minor.removeprefix("1.")), tls=tls, kubeconfig=str(tmp_path / "kubeconfig"))
    code, written = read_by_scheduler(minor, tmp_path, text)

    assert code == 0, written
    read, meant = yaml.safe_load(written), yaml.safe_load(text)
    assert read["apiVersion"] == meant["apiVersion"]
    assert read["clientConnection"]["kubeconfig"] == meant["clientConnection"]["kubeconfig"]
    (extender,) = read["extenders"]
    for key, value in meant["extenders"][0].items():
        # A duration is written another way; false is left out, and of TLS the files that are empty.
        assert extender.get(key, False) == value or key in ("httpTimeout", "tlsConfig", "managedResources"), key
    assert extender["managedResources"][0]["name"] == "aliyun.com/gpu-mem"
    assert extender.get("tlsConfig", {}).get("caFile") == (tls.ca if tls is not None else None)


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
    code, errors = read_by_scheduler(minor, tmp_path, text)

    assert code == 1
    assert re.search(what, errors), errors
