"""Judges a cluster before an installation or a validation, from a picture of its API. Pure; nothing is created or changed.

``preflight_reading`` takes the picture, ``machine_preflight`` looks at a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from e2e.site.preflight_admission import ADMISSION_RULES
from e2e.site.preflight_lines import Rule, Seen, judged, ok, unknown, wrong
from e2e.site.preflight_nodes import NODE_RULES
from e2e.site.preflight_picture import ClusterPicture
from e2e.site.preflight_programs import PROGRAM_RULES
from e2e.site.site_report import PreflightLine

# The kube-scheduler of older minors does not read base/scheduler-config.yaml.
_OLDEST: Final = 25


def judge(picture: ClusterPicture) -> list[PreflightLine]:
    """All lines of the cluster, in the order in which to mend what is wrong."""
    return judged(RULES, picture, "cluster")


def api_server(picture: ClusterPicture) -> Iterator[Seen]:
    """The API server is of a version that gpushare supports."""
    if not picture.minor:
        text = f"it has version {picture.version or 'none'}, which cannot be read"
        yield unknown("cluster", text, f"compare it with 1.{_OLDEST}, the oldest that is supported")
    elif picture.minor < _OLDEST:
        todo = f"update Kubernetes: its kube-scheduler reads the configuration from 1.{_OLDEST} on"
        yield wrong("cluster", f"Kubernetes {picture.version} is too old", todo)
    else:
        yield ok("cluster", f"Kubernetes {picture.version}")


RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "API server": api_server,
    **ADMISSION_RULES,
    **NODE_RULES,
    **PROGRAM_RULES,
}
