"""Cases that are not for every kind of kubelet, by marker: why is printed with the skip.

``stand_in_only(why)`` needs what a real kubelet cannot give: scaled time, machines without containers, another order of
admission. ``real_kubelet_only(why)`` needs what a stand-in has not. ``minutes_on_kind(minutes, why)`` runs on real kubelets with
``--slow`` only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from clusters.provider import NodeSpec, load_nodes
from clusters.providers import BARE, EXISTING
from clusters.real_node import BOX as REAL
from clusters.real_node import machine_name
from clusters.targets import load_target

_SIMULATED: Final = Path(__file__).parent.parent / "clusters" / "simulated"
_USAGE: Final = {"usage": "", "proc-root": "{proc_root}", "usage-interval": "1s", "overuse-after": "0"}
STAND_INS: Final = ("embedded", "controlplane", BARE)
# Its cases are for any cluster.
ONSITE: Final = Path(__file__).parent / "onsite"
# The limit of a case beyond the minutes that it names, in seconds.
_LIMIT_SECONDS: Final = 600
_MARKERS: Final = (
    "stand_in_only(why): not for real kubelets",
    "real_kubelet_only(why): not for stand-in kubelets",
    "minutes_on_kind(minutes, why): takes so long on real kubelets that it runs with --slow only",
)


def add_option(group: pytest.OptionGroup) -> None:
    """``--slow``."""
    group.addoption("--slow", action="store_true", help="on real kubelets, also the cases that take minutes each")


def add_markers(config: pytest.Config) -> None:
    """Say which markers there are."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def sort_out(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Skip, with the reason, what is not for this run's kind of kubelet, and give the others time."""
    kind = config.getoption("--cluster", default="embedded")
    is_real = kind not in STAND_INS
    is_slow = config.getoption("--slow", default=False)
    for item in items:
        why = _why_skipped(item, is_site=kind in (EXISTING, BARE), is_real=is_real, is_slow=is_slow)
        if why:
            item.add_marker(pytest.mark.skip(why))
        elif is_real and (slow := item.get_closest_marker("minutes_on_kind")) is not None:
            item.add_marker(pytest.mark.timeout(slow.args[0] * 60 + _LIMIT_SECONDS))


def session_nodes(config: pytest.Config) -> list[NodeSpec]:
    """The nodes of the session's cluster: six of mixed cards, three if kubelets are real.

    Options for which the target has no flag are left out.

    None of ours if the cluster exists already, and this machine alone if its own cards are judged.
    """
    kind = config.getoption("--cluster")
    if kind == EXISTING:
        return []
    if kind == BARE:
        nodes = [NodeSpec(machine_name(), box=REAL, plugin_options=_USAGE)]
    else:
        nodes = load_nodes(_SIMULATED / ("six-mixed.yaml" if kind in STAND_INS else "three-mixed.yaml"))
    target = load_target(config.getoption("--target"), os.environ)
    known = target.device_plugin_or_none.flags if target.device_plugin_or_none is not None else {}
    return [node if node.plugin_options.keys() <= known.keys() else replace(node, plugin_options={}) for node in nodes]


def _why_skipped(item: pytest.Item, *, is_site: bool, is_real: bool, is_slow: bool) -> str:
    if is_site and "choices" in getattr(item, "fixturenames", ()) and ONSITE not in item.path.parents:
        return "needs nodes of its own, with simulated cards"
    only = item.get_closest_marker("stand_in_only" if is_real else "real_kubelet_only")
    if only is not None:
        return f"for {'the stand-in kubelet' if is_real else 'real kubelets'} only: {only.args[0]}"
    slow = item.get_closest_marker("minutes_on_kind")
    if is_real and slow is not None and not is_slow:
        return f"takes {slow.args[0]} minutes, with --slow only: {slow.args[1]}"
    return ""
