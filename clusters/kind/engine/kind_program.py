"""The program `kind`: one that is on PATH in a fitting version, else ours, built by Go from its pinned sources."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane.binaries import Module, cached, module_of
from clusters.controlplane.build import ensure_modules
from clusters.kind.engine.docker_client import program

_FOLDER: Final = Path(__file__).parents[1] / "binaries" / "kind"
_MODULE: Final = "sigs.k8s.io/kind"
_ANSWER_SECONDS: Final = 30


def kind_module() -> Module:
    """The program to build, in the pinned version."""
    return module_of(_FOLDER, "kind", _MODULE, {"kind": _MODULE})


def fits(version: str, pinned: str) -> bool:
    """May this version (``v0.33.0``) be used in the place of the pinned? The same minor or a newer one of the same major."""
    ours, theirs = (re.match(r"v?(\d+)\.(\d+)\.", one) for one in (pinned, version))
    if ours is None or theirs is None:
        return False
    return ours[1] == theirs[1] and int(theirs[2]) >= int(ours[2])


def known_kind(environment: Mapping[str, str]) -> Path | None:
    """The `kind` that will be used, or None if it must be built first."""
    module = kind_module()
    on_path = program("kind", environment)
    if on_path is not None and fits(_version_of(on_path), module.version):
        return on_path
    return cached(module, environment).get("kind")


def ensure_kind(environment: Mapping[str, str], out: TextIO) -> Path:
    """A `kind` that fits, built if there is none. Raises ClusterError."""
    return known_kind(environment) or ensure_modules([kind_module()], environment, out)["kind"]


def _version_of(path: Path) -> str:
    """``kind version -q`` prints the bare number; "" if it does not answer."""
    try:
        done = subprocess.run(
            [path, "version", "-q"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
