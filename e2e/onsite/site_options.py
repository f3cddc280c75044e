"""The options of cases on any cluster, for pytest and for ``python -m e2e validate`` alike, and their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from clusters.providers import EXISTING
from e2e.onsite.foreign_cluster import Permissions
from e2e.real_kubelets import STAND_INS
from e2e.site import kubeconfig_choice

_USUAL: Final = Permissions()
OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    **kubeconfig_choice.OPTIONS,
    "--nodes": {"default": "", "help": "nodes to validate, with commas (default: all that share cards)"},
    "--max-units": {
        "type": int,
        "default": _USUAL.units,
        "help": "most units at a time (default: as many as 8 GiB are)",
    },
    "--max-pods": {"type": int, "default": _USUAL.pods, "help": "most pods at a time (default: %(default)s)"},
    "--pod-seconds": {
        "type": float,
        "default": _USUAL.seconds,
        "help": "longest wait for a pod; its image may have to come (default: %(default)s)",
    },
    "--probe-image": {"default": "", "help": "image with python3 for the pods (default: the device plugin's own)"},
    "--allow-disruption": {"action": "store_true", "help": "delete the device plugin's pod of each node once"},
    "--restart-kubelet": {
        "default": "",
        "metavar": "COMMAND",
        "help": "with --allow-disruption: restart the kubelet of {node} by this command of this machine",
    },
    "--yes": {"action": "store_true", "help": "create pods on a cluster that is not ours"},
}


def add_options(add: Callable[..., object]) -> None:
    """All options, by pytest's ``addoption`` or argparse's ``add_argument``."""
    for name, settings in OPTIONS.items():
        add(name, **settings)


def argv_of(values: Mapping[str, Any]) -> list[str]:
    """The options on a command line again; ``values`` are by name, with underscores."""
    argv = []
    for name, settings in OPTIONS.items():
        value = values[name.removeprefix("--").replace("-", "_")]
        if value is not None and settings.get("action") != "store_true":
            argv.append(f"{name}={value}")
        elif value:
            argv.append(name)
    return argv


def check(config: pytest.Config) -> None:
    """Raises UsageError for options that do not go together."""
    if config.getoption("--cluster") == EXISTING and not config.getoption("--yes"):
        raise pytest.UsageError(
            "--cluster existing creates pods on a cluster that is not ours: `python -m e2e validate` prints the plan; agree "
            "with --yes"
        )
    if config.getoption("--restart-kubelet") and not config.getoption("--allow-disruption"):
        raise pytest.UsageError("--restart-kubelet needs --allow-disruption")
    if config.getoption("--site-report") and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--site-report is of one process; leave out --numprocesses")


def permissions(config: pytest.Config) -> Permissions:
    """The permissions of this run."""
    option = config.getoption
    limits = (option("--max-units"), option("--max-pods"), option("--pod-seconds"))
    # A stand-in kubelet pulls no image, and runs the probe by whichever is named.
    image = option("--probe-image") or ("python:3" if option("--cluster") in STAND_INS else "")
    return Permissions(*limits, image, option("--allow-disruption"), option("--restart-kubelet"))
