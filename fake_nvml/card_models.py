"""The card catalogue: the answers of NVML for each model, by driver era (``cards.yaml``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from fake_nvml.core.box_cards import CardModel
from fake_nvml.fake_nvml_errors import CatalogueError

_FILE = Path(__file__).with_name("cards.yaml")


@functools.cache
def catalogue() -> Mapping[str, CardModel]:
    """All models by id."""
    entries = parse(_FILE.read_text(encoding="utf-8"))
    return MappingProxyType({name: _model(name, entry) for name, entry in entries.items()})


def model(name: str) -> CardModel:
    """One model. Raises CatalogueError with the ids that there are."""
    try:
        return catalogue()[name]
    except KeyError:
        raise CatalogueError(f"no card {name!r} in the catalogue; there are {', '.join(sorted(catalogue()))}") from None


def _model(name: str, entry: Mapping[str, object]) -> CardModel:
    fields = dict(entry)
    major, minor = str(fields.pop("compute")).split(".")
    tables = {
        "memory": fields.pop("memory_mib"),
        "reserved": fields.pop("reserved_mib", {}),
        "brands": fields.pop("brand"),
    }
    return CardModel(id=name, compute=(int(major), int(minor)), **tables, **fields)  # type: ignore[arg-type]  # cards.yaml has a test


# The wheels of PyYAML have libyaml inside; a build from source may do without.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str) -> Any:
    """The one document of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  # both are safe loaders
