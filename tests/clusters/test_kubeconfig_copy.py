"""Promises of clusters.kubeconfig_copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.api import kubeconfig_file
from clusters.kubeconfig_copy import Copy
from clusters.provider import ClusterError


def test_a_copy_is_for_its_owner_alone_and_goes_with_the_cluster(tmp_path: Path) -> None:
    """The copy holds an administrator's key, so only its owner can read it."""
    out = tmp_path / "out"
    copy = Copy(out)
    copy.put(kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:1", ca=None))
    modes, text = [path.stat().st_mode & 0o777 for path in (tmp_path / "k", out)], out.read_text()
    copy.remove()

    assert (modes, text) == ([0o600] * 2, (tmp_path / "k").read_text())
    assert not out.exists()


@pytest.mark.parametrize("content", ["", "ours"])
def test_empty_file_or_killed_clusters_copy_is_written_over(tmp_path: Path, content: str) -> None:
    """An empty file or a killed cluster's copy is written over, and only its owner can read it afterwards."""
    out = tmp_path / "out"
    out.touch(mode=0o644)
    if content:
        kubeconfig_file.write(out, "http://127.0.0.1:1", ca=None)
    Copy(out).put(kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:2", ca=None))

    assert "127.0.0.1:2" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    ["current-context: mine", "contexts: [{name: gpushare}, {name: mine}]", "[not, a, kubeconfig]", "{", "text", "\0"],
)
def test_a_copy_never_replaces_a_users_file(tmp_path: Path, content: str) -> None:
    """Whatever is in it."""
    out = tmp_path / "out"
    out.write_text(content)
    with pytest.raises(ClusterError, match="name another file"):
        Copy(out)

    assert out.read_text() == content


def test_replaced_or_never_written_copy_stays(tmp_path: Path) -> None:
    """If two clusters have one file the last one's content stays."""
    out = tmp_path / "out"
    first, second, unused = Copy(out), Copy(out), Copy(out)
    first.put(kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:1", ca=None))
    second.put(kubeconfig_file.write(tmp_path / "k", "http://127.0.0.1:2", ca=None))
    first.remove()
    unused.remove()

    assert "127.0.0.1:2" in out.read_text()
