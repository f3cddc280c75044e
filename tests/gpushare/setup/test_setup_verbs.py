"""The verbs of gpushare-setup on a node; a thread plays its kubelet, which restarts kube-scheduler from the manifest.

A real kubelet does that with a real kube-scheduler in e2e/kind.
"""

from __future__ import annotations

import http.server
import shutil
import threading
from pathlib import Path

import pytest

from gpushare.setup import main, node_files, running_scheduler
from gpushare.setup.core import static_pod
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import installation
from gpushare.setup.core.sites import MANIFEST, MANIFESTS, Wish
from gpushare.setup.journal import Journal
from gpushare.setup.node_files import NodeFiles
from tests.gpushare.setup.node_trees import kubeadm, running, whole, write
from tests.gpushare.setup.test_broken_sites import CONFIG, setup

# Against hangs; a good kube-scheduler takes a second.
PATIENT = "--timeout=10m"


class Node:
    """A node with a kubelet and a kube-scheduler that answers /healthz."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_crashing = False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        write(root, kubeadm(probe_port=str(self.server.server_port), scheme="HTTP"))
        self.manifest = root / MANIFEST.lstrip("/")
        self._ended = threading.Event()
        self._number = 6
        self._start()
        self._threads = [threading.Thread(target=one) for one in (self.server.serve_forever, self._restart_on_change)]

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/healthz" else 500)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _start(self) -> None:
        """A process with the flags of the manifest takes the place of the one before."""
        self.seen = self.manifest.read_text()
        flags = static_pod.read(self.seen, "manifest").flags
        shutil.rmtree(self.root / f"proc/{self._number}", ignore_errors=True)
        self._number += 1
        write(
            self.root, running(self._number, "kube-scheduler", *(f"--{name}={value}" for name, value in flags.items()))
        )

    def crash(self) -> None:
        """kube-scheduler ends, and each start of this manifest ends too; the kubelet is seen."""
        self.is_crashing = True
        shutil.rmtree(self.root / f"proc/{self._number}")
        write(self.root, running(5, "kubelet"))

    def _restart_on_change(self) -> None:
        config = self.root / CONFIG.lstrip("/")
        while not self._ended.wait(0.01):
            if self.manifest.read_text() == self.seen:
                continue
            if self.is_crashing:
                # The container of the old manifest was started once more: containerd makes the source of its mount.
                while config.is_file() and not self._ended.wait(0.01):
                    pass
                config.mkdir(exist_ok=True)
                self.is_crashing = False
            self._start()

    def __enter__(self) -> Node:
        for thread in self._threads:
            thread.start()
        return self

    def stop_kubelet(self) -> None:
        """From now on kube-scheduler is not restarted."""
        self._ended.set()

    def __exit__(self, *_: object) -> None:
        self.stop_kubelet()
        self.server.shutdown()
        for thread in self._threads:
            thread.join()
        self.server.server_close()

    def files(self) -> dict[str, tuple[bytes, int]]:
        """All files but those of processes."""
        return whole(self.root)


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node's processes are looked at a hundred times a second."""
    monkeypatch.setattr(running_scheduler, "LOOK_SECONDS", 0.01)


def test_an_uninstall_ends_when_the_scheduler_is_healthy(tmp_path: Path) -> None:
    """A second apply changes nothing, an uninstall gives back what was there, and a rollback undoes that, too."""
    with Node(tmp_path) as node:
        before = node.files()
        setup("apply", tmp_path, PATIENT)
        applied = node.files()
        assert setup("apply", tmp_path, PATIENT) == (0, "kubeadm, Kubernetes 1.30\nnothing to change\n")
        assert node.files() == applied
        code, out = setup("uninstall", tmp_path, PATIENT)
        done = "done, and kube-scheduler is healthy; gpushare-setup rollback undoes it"
        assert (code, out.splitlines()[-1]) == (0, done)
        assert node.files() == before
        restored = f"restored {MANIFEST}\nrestored {CONFIG}\ndone, and kube-scheduler is healthy\n"
        assert setup("rollback", tmp_path, PATIENT) == (0, restored)
        assert node.files() == applied


@pytest.mark.parametrize("verb", ["rollback", "uninstall"])
def test_a_crashing_scheduler_leaves_no_folder(verb: str, tmp_path: Path) -> None:
    """A kube-scheduler that is started again while its file is removed leaves no folder in the file's place."""
    with Node(tmp_path) as node:
        before = node.files()
        setup("apply", tmp_path, PATIENT)
        node.crash()

        code, out = setup(verb, tmp_path, PATIENT)
        assert (code, "and kube-scheduler is healthy" in out) == (0, True)
        assert (node.files(), (tmp_path / CONFIG.lstrip("/")).exists()) == (before, False)


def test_an_uninstall_ends_what_no_rollback_can(tmp_path: Path) -> None:
    """An uninstall ends an apply that was interrupted, although a person has changed the manifest since."""
    write(tmp_path, kubeadm())
    Journal(NodeFiles(tmp_path)).apply(installation(kubeadm(), Wish())[1])
    manifest = tmp_path / MANIFEST.lstrip("/")
    manifest.write_text(manifest.read_text() + "# mine\n")

    with pytest.raises(SetupRefusedError, match="or run gpushare-setup uninstall"):
        setup("rollback", tmp_path)
    assert setup("uninstall", tmp_path, "--timeout=0")[0] == 0
    assert manifest.read_text() == kubeadm()[MANIFEST] + "# mine\n"
    assert "an apply began" not in setup("check", tmp_path)[1]


@pytest.mark.parametrize("mounted", [MANIFEST, MANIFESTS])
def test_a_mount_is_refused_before_anything_changes(
    mounted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is a mount cannot be replaced; apply reports that, and changes no file."""
    write(tmp_path, kubeadm())
    before = whole(tmp_path)
    table = tmp_path / "mountinfo"
    table.write_text(f"36 35 98:0 /a {tmp_path}{mounted} rw - ext4 /dev/a rw\n")
    monkeypatch.setattr(node_files, "MOUNTS", table)

    with pytest.raises(SetupRefusedError, match=f"{mounted} is a mount of its own"):
        setup("apply", tmp_path, "--timeout=0")
    table.unlink()
    assert whole(tmp_path) == before


def test_an_old_scheduler_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    """If only the scheduler's file changes, the scheduler that runs has the flag already, and a restart is awaited."""
    with Node(tmp_path) as node:
        setup("apply", tmp_path, PATIENT)
        before = node.files()
        node.stop_kubelet()

        with pytest.raises(SetupRefusedError, match="every file is as it was"):
            setup("apply", tmp_path, "--timeout=1s", "--extender-url=http://127.0.0.1:32766/gpushare-scheduler")
        assert node.files() == before


def test_a_restart_that_could_not_be_seen_is_refused(tmp_path: Path) -> None:
    """In a container without the node's processes nothing is changed, since a broken kube-scheduler would not be noticed."""
    write(tmp_path, kubeadm())
    before = whole(tmp_path)

    with pytest.raises(SetupRefusedError, match="no process of kube-scheduler or the kubelet is seen"):
        setup("apply", tmp_path, "--timeout=1s")
    assert whole(tmp_path) == before


def full_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on no file of that name takes the text with the scheduler's file."""
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target.name == name and CONFIG in path.read_text():
            raise OSError(28, "No space left on device")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An apply that cannot write the second file takes the first one back, and ends with the system's error."""
    write(tmp_path, kubeadm())
    before = whole(tmp_path)
    full_disk(monkeypatch, "kube-scheduler.yaml")

    assert main.main(["apply", "--root", str(tmp_path), "--timeout=0"]) == 1
    assert whole(tmp_path) == before
    assert main.main(["rollback", "--root", str(tmp_path)]) == 1, "nothing is left to roll back"


def test_a_full_disk_undoes_no_earlier_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An uninstall that cannot even write its journal leaves what an earlier apply made."""
    write(tmp_path, kubeadm())
    assert main.main(["apply", "--root", str(tmp_path), "--timeout=0"]) == 0
    before = whole(tmp_path)
    full_disk(monkeypatch, "journal.json")

    assert main.main(["uninstall", "--root", str(tmp_path), "--timeout=0"]) == 1
    assert whole(tmp_path) == before


@pytest.mark.parametrize(
    ("argv", "code", "what"),
    [
        ([], 2, "error: what to do? plan, apply, rollback, check, uninstall"),
        (["plan", "--extender-ca-file=/ca"], 2, "error: --extender-url begins with https:// if"),
        (["plan", "--extender-key-file=/key"], 2, "error: --extender-cert-file and --extender-key-file go together"),
        (["rollback"], 1, "error: there is no apply to roll back\n  fix: gpushare-setup check shows"),
        (["check"], 3, ""),
    ],
)
def test_the_exit_code_names_the_outcome(
    argv: list[str], code: int, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 for flags that make no sense, 1 for what is refused, 3 for faults."""
    assert main.main([*argv, "--root", str(tmp_path)]) == code
    assert capsys.readouterr().err.startswith(what)


@pytest.mark.parametrize(
    "argv",
    [["remove"], ["plan", "--kubernetes=1"], ["plan", "--kubernetes=2.30"], ["migrate", "--memory-unit=256MiB"]],
)
def test_a_word_that_is_no_verb_release_or_unit_ends_with_usage(argv: list[str]) -> None:
    """A verb or release that does not exist, or a unit that the original lacks, ends with the usage."""
    with pytest.raises(SystemExit) as ended:
        main.main(argv)
    assert ended.value.code == 2


def test_ctrl_c_names_the_way_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An apply that is interrupted while it waits leaves what rollback undoes."""
    node = Node(tmp_path)
    before = node.files()

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    assert main.main(["apply", "--root", str(tmp_path)]) == 130
    assert "gpushare-setup rollback undoes it" in capsys.readouterr().err
    assert main.main(["rollback", "--root", str(tmp_path), "--timeout=0"]) == 0
    assert node.files() == before
    node.server.server_close()


def test_the_help_of_a_verb_has_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` behind a verb names the flags that this verb reads, and no others."""
    for verb, has, lacks in (
        ("migrate", "--back", "--root"),
        ("rollback", "--timeout", "--back"),
        ("check", "--context", "--timeout"),
    ):
        with pytest.raises(SystemExit):
            main.main([verb, "--help"])
        shown = capsys.readouterr().out
        assert f"usage: gpushare-setup {verb} " in shown
        assert has in shown
        assert lacks not in shown
