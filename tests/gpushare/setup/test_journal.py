"""Promises of gpushare.setup.journal, and of node_files below it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.plan import Change, installation, removal
from gpushare.setup.core.sites import MANIFEST, Wish
from gpushare.setup.journal import FOLDER, Journal
from gpushare.setup.node_files import Content, NodeFiles
from tests.gpushare.setup.node_trees import kubeadm, whole, write

CONFIG = "/etc/kubernetes/scheduler-gpushare-config.yaml"


class PowerCutError(BaseException):
    """The machine stops here."""


@contextmanager
def power_cut(at: int, *, is_after: bool = False) -> Iterator[list[str]]:
    """Stop before, or after, the call with this number of those that make a change lasting; the calls that were begun."""
    begun: list[str] = []
    real = {name: getattr(os, name) for name in ("replace", "fsync", "unlink", "utime")}

    def stopping(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            begun.append(name)
            if len(begun) == at and not is_after:
                raise PowerCutError
            answer = real[name](*args, **options)
            if len(begun) == at:
                raise PowerCutError
            return answer

        return call

    for name in real:
        setattr(os, name, stopping(name))
    try:
        yield begun
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash is played by the calls that are not made, so no test waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@cache
def planned(verb: str) -> tuple[dict[str, str], list[Change]]:
    """The files before an apply or an uninstall, and what it changes."""
    files, (_, changes) = kubeadm(), installation(kubeadm(), Wish())
    if verb == "apply":
        return files, changes
    files |= {change.path: str(change.new) for change in changes}
    return files, removal(files, Wish())[1]


def node(root: Path, verb: str = "apply") -> tuple[Journal, list[Change]]:
    """A node, and what an apply or an uninstall changes there."""
    shutil.rmtree(root, ignore_errors=True)
    files, changes = planned(verb)
    journal = Journal(NodeFiles(write(root, files)))
    root.joinpath(MANIFEST.lstrip("/")).chmod(0o600)
    return journal, changes


def crashed(journal: Journal, changes: list[Change], at: int, *, is_after: bool = False) -> None:
    """The machine stops while these changes are made."""
    with power_cut(at, is_after=is_after), suppress(PowerCutError):
        journal.apply(changes)
        journal.complete()


@pytest.mark.parametrize("verb", ["apply", "uninstall"])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_a_crash_at_each_step_is_rolled_back(verb: str, is_after: bool, tmp_path: Path) -> None:
    """Whatever call the machine stops before or after, files and modes are as before, or the whole change is made."""
    root = tmp_path / "node"
    journal, changes = node(root, verb)
    before = whole(root)
    with power_cut(0) as calls:
        journal.apply(changes)
        journal.complete()
    after = whole(root)

    outcomes = []
    for step in range(1, len(calls) + 1):
        journal, changes = node(root, verb)
        crashed(journal, changes, step, is_after=is_after)
        # The kubelet runs whatever is in its folder, so no unfinished file is ever there.
        assert [path.name for path in (root / MANIFEST.lstrip("/")).parent.iterdir()] == ["kube-scheduler.yaml"]
        if journal.is_interrupted():
            outcomes.append("rolled back")
            journal.rollback()
            assert whole(root) == before, f"stopped at call {step}: {calls[:step]}"
        else:
            outcomes.append("made" if whole(root) == after else "not begun")
            assert whole(root) in (before, after), f"stopped at call {step}: {calls[:step]}"

    assert len(calls) > 12, "each file is made lasting by several calls"
    assert outcomes == sorted(outcomes, key=["not begun", "rolled back", "made"].index)
    assert outcomes.count("rolled back") >= len(changes) * 4


@pytest.mark.thorough("two crashes; one at each step is played by the test above")
@pytest.mark.parametrize("verb", ["apply", "uninstall"])
def test_crashes_of_the_rollback_are_rolled_back(verb: str, tmp_path: Path) -> None:
    """A rollback may be stopped too, at any two calls: the one that ends gives every file back."""

    @settings(max_examples=50)
    @given(st.integers(1, 30), st.lists(st.tuples(st.integers(1, 16), st.booleans()), max_size=3))
    def crashes(at: int, again: list[tuple[int, bool]]) -> None:
        journal, changes = node(tmp_path / "node", verb)
        before = whole(tmp_path / "node")
        crashed(journal, changes, at)
        if not journal.is_interrupted():
            return
        for step, is_after in again:
            with power_cut(step, is_after=is_after), suppress(PowerCutError):
                if journal.is_interrupted():
                    journal.rollback()
        if journal.is_interrupted():
            journal.rollback()

        assert whole(tmp_path / "node") == before

    crashes()


def test_an_apply_after_a_crash_is_refused(tmp_path: Path) -> None:
    """An apply that was left half done is not built upon."""
    journal, changes = node(tmp_path, "apply")
    journal.apply(changes)

    assert journal.is_interrupted()
    with pytest.raises(SetupRefusedError, match="fix: run gpushare-setup rollback"):
        journal.apply(changes)


def test_a_file_that_was_changed_since_is_not_lost(tmp_path: Path) -> None:
    """A rollback undoes nothing if a person has changed a file since, and the apply nothing if one changes below it."""
    journal, changes = node(tmp_path, "apply")
    manifest = tmp_path / MANIFEST.lstrip("/")
    manifest.write_text(manifest.read_text() + "# mine\n")
    with pytest.raises(SetupRefusedError, match="kube-scheduler.yaml has changed since it was read"):
        journal.apply(changes)
    manifest.write_text(str(changes[1].old))
    journal.apply(changes)
    manifest.write_text(manifest.read_text() + "# mine\n")
    applied = whole(tmp_path)

    with pytest.raises(SetupRefusedError, match="kube-scheduler.yaml has changed since the apply"):
        journal.rollback()
    assert whole(tmp_path) == applied


def test_a_lost_copy_is_an_error(tmp_path: Path) -> None:
    """A rollback without its copy ends with the file's name, and changes no file."""
    journal, changes = node(tmp_path, "apply")
    journal.apply(changes)
    applied = whole(tmp_path)
    for path in (tmp_path / FOLDER.lstrip("/")).iterdir():
        if path.name != "journal.json":
            path.unlink()

    with pytest.raises(
        SetupRefusedError, match="the copy of /etc/kubernetes/manifests/kube-scheduler.yaml in .* is lost"
    ):
        journal.rollback()
    assert whole(tmp_path) == applied


def test_one_program_at_a_time(tmp_path: Path) -> None:
    """A second gpushare-setup on the node is refused while the first one changes it."""
    files = NodeFiles(tmp_path)
    with Journal(files).held(), pytest.raises(SetupRefusedError, match="another gpushare-setup"), Journal(files).held():
        pass
    with Journal(files).held():
        pass


def test_a_link_is_refused(tmp_path: Path) -> None:
    """A manifest that is a link is not replaced by a file."""
    write(tmp_path, {"/real.yaml": "a: 1\n"})
    (tmp_path / "link.yaml").symlink_to("real.yaml")

    with pytest.raises(SetupRefusedError, match=r"/link\.yaml is a link to real\.yaml"):
        NodeFiles(tmp_path).read("/link.yaml")


@pytest.mark.parametrize(
    "planted",
    [
        *(f"{FOLDER}/{name}" for name in ("lock", "journal.json", ".journal.json.gpushare-setup")),
        FOLDER,
        "/var/lib",
        "/etc/kubernetes/.kube-scheduler.yaml.gpushare-setup",
        "/etc/kubernetes/.scheduler-gpushare-config.yaml.gpushare-setup",
        CONFIG,
        "/etc/kubernetes",
        "/etc/kubernetes/manifests",
    ],
)
def test_a_planted_link_is_not_followed(planted: str, tmp_path: Path) -> None:
    """Whatever a link takes the place of, an apply changes nothing behind it, and it is made whole or not at all."""
    root, outside = tmp_path / "node", tmp_path / "outside"
    journal, changes = node(root)
    here = root / planted.lstrip("/")
    outside.mkdir()
    if here.is_dir():
        here.rename(outside / "moved")
        here.symlink_to(outside / "moved")
    else:
        outside.joinpath("secret").write_text("kept")
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(outside / "secret" if "." in here.name or here.name == "lock" else outside)
    behind, before = whole(outside), whole(root)

    with suppress(SetupRefusedError, OSError), journal.held():
        journal.apply(changes)
        journal.complete()

    assert whole(outside) == behind
    assert whole(root) == before or not journal.is_interrupted()


@pytest.mark.parametrize("folder", [FOLDER, "/etc/kubernetes"])
def test_a_folder_that_others_may_write_is_refused(folder: str, tmp_path: Path) -> None:
    """Another user could plant a journal, or a file in place of one of ours, in a folder that is not root's alone."""
    journal, changes = node(tmp_path)
    path = tmp_path / folder.lstrip("/")
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    before = whole(tmp_path / "etc")

    with pytest.raises(SetupRefusedError, match=f"others than root may write in {folder}"), journal.held():
        journal.apply(changes)
    assert whole(tmp_path / "etc") == before


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """A manifest that is not UTF-8 is named."""
    NodeFiles(tmp_path).replace(MANIFEST, Content(b"\xff"))

    with pytest.raises(SetupRefusedError, match=r"kube-scheduler\.yaml: no text in UTF-8"):
        NodeFiles(tmp_path).texts()
