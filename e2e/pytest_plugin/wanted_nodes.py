"""The nodes that a test asks for, as those of a cluster: ``t4x2`` is a box, or a model of the catalogue and a count."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from clusters.provider import ClusterError, NodeSpec
from fake_nvml.box import box_names
from fake_nvml.card_models import catalogue

DEFAULT: Final = ("t4x2",)
# The branch of a box that is only named by its cards.
_DRIVER: Final = "580"
_COUNTED: Final = re.compile(r"(?P<model>.+?)(?:x(?P<count>[1-9]\d?))?")


def node_specs(wanted: Sequence[str | Mapping[str, Any]], folder: Path) -> list[NodeSpec]:
    """The nodes; boxes that have no file get one in ``folder``. Raises ClusterError."""
    given = [{"box": node} if isinstance(node, str) else dict(node) for node in wanted or DEFAULT]
    specs = []
    for number, fields in enumerate(given, start=1):
        box = str(fields.get("box", "none"))
        if box != "none" and box not in box_names() and not Path(box).is_file():
            fields["box"] = str(_written(box_of(box, catalogue()), folder / f"{box}.yaml"))
        try:
            specs.append(msgspec.convert({"name": f"node{number}", **fields}, NodeSpec))
        except msgspec.ValidationError as error:
            raise ClusterError(f"gpu_nodes: node {number} is {fields}: {error}") from error
    return specs


def box_of(text: str, models: Collection[str]) -> dict[str, Any]:
    """The box that ``a10x3`` or ``1080ti`` names: a model, whose letters before the number may be left out, and a count.

    Raises ClusterError unless it is one model.
    """
    match = _COUNTED.fullmatch(text)
    name, count = (match["model"], int(match["count"] or 1)) if match else (text, 1)
    found = {model for model in models if name in (model, model.removeprefix("gtx"), model.removeprefix("rtx"))}
    if len(found) != 1:
        raise ClusterError(
            f"gpu_nodes: {text!r} is no box, no file and no model with a count; boxes: {', '.join(box_names())}; "
            f"models: {', '.join(sorted(models))}"
        )
    return {"driver": _DRIVER, "cards": [{"model": found.pop(), "count": count}]}


def _written(box: Mapping[str, Any], path: Path) -> Path:
    path.write_text(yaml.safe_dump(box), encoding="utf-8")
    return path
