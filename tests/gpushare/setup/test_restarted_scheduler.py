"""The verbs on kubeadm's own manifest and a real kube-scheduler; a thread in place of the kubelet runs what the manifest names.

A real kubelet does that on kind: such a case belongs in e2e/kind.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusters.controlplane.binaries import known, minors
from clusters.processes.ports import free_port
from gpushare.setup.core import static_pod
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.sites import MANIFEST
from tests.gpushare.setup.node_trees import whole, write
from tests.gpushare.setup.test_broken_sites import CONFIG, setup
from tests.gpushare.setup.test_real_scheduler import KUBECONFIG

pytestmark = pytest.mark.thorough("a real kube-scheduler is started several times")
PATIENT = "--timeout=10m"


class RealNode:
    """A folder that is the root of kube-scheduler, with the machine's processes."""

    def __init__(self, root: Path, scheduler: Path, minor: str) -> None:
        self.root = write(root, {"/etc/kubernetes/scheduler.conf": yaml.safe_dump(KUBECONFIG)})
        kubeadm = [
            str(scheduler.with_name("kubeadm")),
            "init",
            "phase",
            "control-plane",
            "scheduler",
            f"--rootfs={root}",
        ]
        done = subprocess.run(
            [*kubeadm, f"--kubernetes-version=v{minor}.0"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        program = root / "usr/local/bin/kube-scheduler"
        program.parent.mkdir(parents=True)
        program.write_bytes(scheduler.read_bytes())
        program.chmod(0o755)
        (root / "tmp").mkdir()
        (root / "log").touch()
        (root / "proc").symlink_to("/proc")
        # Other tests run kube-scheduler on this machine too.
        port = free_port()
        self.manifest = root / MANIFEST.lstrip("/")
        text = self.manifest.read_text().replace("10259", str(port))
        self.manifest.write_text(text.replace("    - --leader", f"    - --secure-port={port}\n    - --leader"))
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def files(self) -> dict[str, tuple[bytes, int]]:
        """The files below /etc."""
        return whole(self.root / "etc")

    def _run(self) -> None:
        """Start kube-scheduler again when the manifest is another, or when it has ended."""
        seen, process = "", None
        with (self.root / "log").open("w") as log:
            while not self.ended.wait(0.05):
                text = self.manifest.read_text()
                if process is None or text != seen or process.poll() is not None:
                    _end(process)
                    seen = text
                    flags = [f"--{name}={value}" for name, value in static_pod.read(text, MANIFEST).flags.items()]
                    process = subprocess.Popen(
                        ["chroot", self.root, "/usr/local/bin/kube-scheduler", *flags], stdout=log, stderr=log
                    )
            _end(process)

    def __enter__(self) -> RealNode:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._thread.join()
        # It is large, and pytest keeps the folders of several runs.
        (self.root / "usr/local/bin/kube-scheduler").unlink()


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RealNode]:
    """A node of the newest minor, whose kube-scheduler runs."""
    scheduler = known(minors()[0], os.environ).get("kube-scheduler")
    if scheduler is None or not scheduler.with_name("kubeadm").exists():
        pytest.skip("no kube-scheduler and kubeadm: `make kind-image` builds them")
    if os.geteuid() != 0:
        pytest.skip("only root may give kube-scheduler a root folder of its own")
    with RealNode(tmp_path / "node", scheduler, minors()[0]) as one:
        yield one


def test_a_real_scheduler_takes_the_change_and_its_removal(node: RealNode) -> None:
    """kube-scheduler, restarted from the edited manifest of kubeadm, is well with the new file, and without it again."""
    before = node.files()
    _until_it_runs(node)

    code, out = setup("apply", node.root, PATIENT)
    assert (code, out.splitlines()[-1]) == (0, "done, and kube-scheduler is well; gpushare-setup rollback undoes it")
    assert setup("check", node.root) == (0, "good: kube-scheduler asks gpushare's extender\n")
    assert setup("uninstall", node.root, PATIENT)[0] == 0
    assert node.files() == before


def test_a_real_scheduler_that_refuses_its_file_is_rolled_back(node: RealNode) -> None:
    """kube-scheduler ends at an authority that is no certificate; the manifest from before is restored."""
    write(node.root, {"/etc/kubernetes/ca.crt": "no certificate"})
    before = node.files()
    _until_it_runs(node)

    with pytest.raises(SetupRefusedError, match=r"was not well within 10 s; every file is as it was"):
        setup(
            "apply", node.root, "--timeout=10s", "--extender-ca-file=/etc/kubernetes/ca.crt",
            "--extender-url=https://127.0.0.1:12345/gpushare-scheduler",
        )  # fmt: skip
    assert node.files() == before
    assert "couldn't build extenders" in (node.root / "log").read_text()
    assert CONFIG not in node.manifest.read_text()


def _until_it_runs(node: RealNode) -> None:
    """The first kube-scheduler is there."""
    while "Serving securely" not in (node.root / "log").read_text():
        assert not node.ended.wait(0.05)
