"""Promises of clusters.kind.workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.kind.workers import Workers
from clusters.provider import ClusterError, NodeSpec


def test_a_name_that_is_no_label_is_refused(tmp_path: Path) -> None:
    """The error for a node that a real kubelet cannot register has the limit, and the providers without it."""
    found = Workers("c", tmp_path, {}, [])
    found.prepare([NodeSpec("a" * 63)])
    with pytest.raises(ClusterError, match="64 characters; on kind a node's name has 63 at most.*embedded"):
        found.prepare([NodeSpec("a" * 64)])
