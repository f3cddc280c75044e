"""A box: the cards of one node under one driver (``boxes/*.yaml``, or a file of the same form).

::

    driver: "418.87.00"
    cards:
      - {model: t4, count: 2}       # count 1 and no NUMA node by default
      - {model: gtx1080ti, numa: 1}
      - {model: a100-sxm4-80gb, count: 4, below_root: 2}    # neighbours below one PCIe root; 1 by default
      - {model: l4, refuses: {NOT_SUPPORTED: [nvmlDeviceGetMinorNumber]}}    # what the card does not answer, and how
    limits: misc                    # dmem (default), misc or none enforces limits of memory under driver 615
    keeps_dead_limits: true         # a limit outlives its cgroup, and the next one at that inode has it (seen with misc)
    context_mib: 518                # MiB that a CUDA context takes of its card; 0 by default

A box that ``fake-nvml record`` wrote has cards with the key ``recorded`` instead, and stands for its own driver only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import yaml

from fake_nvml.core.answers import KEYS, SYSTEM_KEYS, function_of, unversioned
from fake_nvml.core.box_cards import RECORDED, BoxCard, CardModel
from fake_nvml.core.card_changes import made_serial, made_uuid
from fake_nvml.core.drivers import complete, cuda_version
from fake_nvml.core.limits import BACKENDS, LimitOptions
from fake_nvml.core.recorded import recorded_card, refused_of_system, unknown_calls
from fake_nvml.core.returns import CODES
from fake_nvml.fake_nvml_errors import CatalogueError

_BOXES = Path(__file__).with_name("boxes")
# As many as the state file has room for.
MAX_CARDS = 64
_SEED = "node"
_KEYS_OF_CARDS = ("model", "count", "numa", "below_root", "refuses")
# The last two are written by record. Of ``system`` only the calls that the driver refused are read.
_KEYS = {"driver", "cards", "limits", "keeps_dead_limits", "context_mib", "simulated", "system"}


@dataclass(frozen=True, slots=True)
class Box:
    """The cards of one node, in NVML's order; ``refused``: what of the whole node is not answered, as of a card.

    ``dropped``: what a recording has, and simulated cards have no place for.
    """

    driver: str
    cards: tuple[BoxCard, ...]
    refused: Mapping[str, int] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    limits: LimitOptions = field(default_factory=LimitOptions)

    @classmethod
    def load(cls, name_or_path: str, *, seed: str | None, driver: str | None = None) -> Self:
        """Load a box by name or from a file.

        The same ``seed`` (a node's name) gives the same UUIDs and serial numbers, another seed others; None stands for
        one of its own, and leaves recorded cards theirs. ``driver`` replaces the box's own, a bare branch (418) stands
        for a release of it. Raises CatalogueError if the box, a card of it or their pairing does not exist.
        """
        path = _find(name_or_path)
        try:
            return cls._parse(_read(path), seed, driver)
        except CatalogueError as error:
            raise CatalogueError(f"{path}: {error}") from error.__cause__

    @classmethod
    def _parse(cls, content: dict[str, Any], seed: str | None, driver: str | None) -> Self:
        own = content.get("driver")
        version = driver or own
        if not isinstance(version, str):
            raise CatalogueError(f'driver is {version!r}, not a text; quote it, as in driver: "418.87.00"')
        version = complete(version)
        cuda_version(version)
        entries = content.get("cards")
        if not isinstance(entries, list):
            raise CatalogueError("cards is not a list; write one {model: t4} a card, or [] for none")
        found = tuple(_cards(entries, seed))
        if len(found) > MAX_CARDS:
            raise CatalogueError(f"{len(found)} cards in one box; NVML machines end at {MAX_CARDS}")
        _check_driver(found, version, own)
        refused = refused_of_system(content.get("system") or {})
        return cls(version, found, refused, _dropped(entries), _limits(content))


def box_names() -> list[str]:
    """The boxes that come along."""
    return sorted(path.stem for path in _BOXES.glob("*.yaml"))


def _find(name_or_path: str) -> Path:
    named = _BOXES / f"{name_or_path}.yaml"
    if name_or_path in box_names():
        return named
    path = Path(name_or_path)
    if path.is_file():
        return path
    raise CatalogueError(f"no box and no file {name_or_path!r}; boxes: {', '.join(box_names())}")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = _parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CatalogueError(f"cannot be read as YAML: {error}") from error
    if not isinstance(content, dict) or not content.keys() <= _KEYS:
        raise CatalogueError("a box has the keys driver and cards, and perhaps limits, keeps_dead_limits, context_mib")
    return content


def _limits(content: Mapping[str, Any]) -> LimitOptions:
    backend, keeps = content.get("limits", "dmem"), content.get("keeps_dead_limits", False)
    context = content.get("context_mib", 0)
    if backend not in BACKENDS or not isinstance(keeps, bool) or type(context) is not int or not 0 <= context < 2**20:
        raise CatalogueError(
            f"limits is one of {', '.join(BACKENDS)}, keeps_dead_limits is true or false, context_mib is MiB from 0 on"
        )
    return LimitOptions(backend, keeps, context)


def _cards(entries: list[Any], seed: str | None) -> Iterator[BoxCard]:
    index = 0
    for position, entry in enumerate(entries):
        try:
            found = _recorded(entry, index, seed) if _is_recorded(entry) else _of_models(entry, index, seed or _SEED)
        except CatalogueError as error:
            raise CatalogueError(f"cards[{position}]: {error}") from error.__cause__
        yield from found
        index += len(found)


def _of_models(entry: Any, first: int, seed: str) -> list[BoxCard]:
    if not isinstance(entry, dict) or "model" not in entry or not entry.keys() <= set(_KEYS_OF_CARDS):
        raise CatalogueError(
            f"{entry!r} is no card; it has the key model, and may have {', '.join(_KEYS_OF_CARDS[1:])}"
        )
    refused = _refuses(entry.get("refuses", {}))
    count, numa, together = entry.get("count", 1), entry.get("numa"), entry.get("below_root", 1)
    if not _is_count(count) or not (numa is None or _is_count(numa)) or not (_is_count(together) and together):
        raise CatalogueError(f"count and numa are whole numbers from 0 to {MAX_CARDS}, below_root is one from 1")
    card = model(str(entry["model"]))
    seeds = [f"{seed}/{index}" for index in range(first, first + count)]
    serials = [made_serial(one) if card.data_center else "" for one in seeds]
    uuids = [made_uuid(f"card {one}") for one in seeds]
    return [
        BoxCard(card, uuid, serial, numa, {}, refused, place % together)
        for place, (uuid, serial) in enumerate(zip(uuids, serials, strict=True))
    ]


def _refuses(entry: object) -> dict[str, int]:
    """``{NOT_SUPPORTED: [nvmlDeviceGetMinorNumber]}`` by keys; a name without a version stands for every version."""
    rows = entry.items() if isinstance(entry, dict) else [("", None)]
    refused: dict[str, int] = {}
    for code, functions in rows:
        if code not in CODES or not isinstance(functions, list):
            raise CatalogueError(f"refuses is {entry!r}, not a return code and its functions: {{NOT_SUPPORTED: [...]}}")
        for function in functions:
            keys = [
                key for key in KEYS if key not in SYSTEM_KEYS and function in (key, unversioned(key), function_of(key))
            ]
            if not keys:
                raise CatalogueError(f"refuses: no function {function!r} that simulated cards answer")
            refused |= dict.fromkeys(keys, CODES[code])
    return refused


def _dropped(entries: list[Any]) -> frozenset[str]:
    calls = (entry["recorded"] for entry in entries if _is_recorded(entry))
    return frozenset(str(call) for entry in calls for call in unknown_calls(entry))


def _is_recorded(entry: object) -> bool:
    return isinstance(entry, dict) and entry.keys() == {"recorded"}


def _recorded(entry: dict[str, Any], index: int, seed: str | None) -> list[BoxCard]:
    card = recorded_card(entry["recorded"])
    serial = card.serial if seed is None or not card.serial else made_serial(f"{seed}/{index}")
    known = card.uuid if seed is None and card.uuid else made_uuid(f"card {seed or _SEED}/{index}")
    return [BoxCard(RECORDED, known, serial, None, card.fields, card.refused)]


def _check_driver(cards: Sequence[BoxCard], version: str, own: object) -> None:
    for card in cards:
        if card.fields and version != own:
            raise CatalogueError(f"its cards were recorded under driver {own}; record them under {version} too")
        card.model.memory_mib(version)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_CARDS


# The card catalogue: the answers of NVML for each model, by driver era.
_CATALOGUE = Path(__file__).with_name("cards.yaml")


@functools.cache
def catalogue() -> Mapping[str, CardModel]:
    """All models by id."""
    entries = _parse(_CATALOGUE.read_text(encoding="utf-8"))
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


def _parse(text: str) -> Any:
    """The one document of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  # both are safe loaders
