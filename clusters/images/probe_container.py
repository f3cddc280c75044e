"""The probe of GPU containers (``gpu_probe.py``) as a container of a manifest, for any cluster. It reads that file once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

PROBE: Final = Path(__file__).with_name("gpu_probe.py").read_text(encoding="utf-8")
_COMMAND: Final = ("python3", "-c", PROBE)


def probe_container(
    name: str, image: str, *arguments: str, limits: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """A container that runs the probe with these arguments (``look``; ``allocate``, ``--mib``, ...) in an image with Python."""
    resources = {"limits": dict(limits)} if limits else {}
    return {"name": name, "image": image, "command": list(_COMMAND), "args": list(arguments), "resources": resources}


def probe_arguments(command: Sequence[str]) -> tuple[str, ...] | None:
    """The probe's arguments in a container's command and args; None if these run anything else than exactly this probe."""
    size = len(_COMMAND)
    return tuple(command[size:]) if tuple(command[:size]) == _COMMAND else None
