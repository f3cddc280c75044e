"""The behaviour of each image: the YAML files of this folder, as values. Pure except for ``Behaviours.load``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec.structs import replace

from clusters.images.image_command import outcome_of
from clusters.provider import read_yaml

_FOLDER: Final = Path(__file__).parent
# Variables of a container that change one field of its behaviour; a real container ignores them.
OVERRIDE_PREFIX: Final = "SIMULATED_"
_NUMBERS: Final = {"holds_mib": int, "exits_after": float, "exit_code": int, "stop_seconds": float}


class BehaviourError(ValueError):
    """A variable that changes a behaviour makes no sense, or an image has two behaviours."""


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The behaviour of an image's process; the defaults are an unknown image's: it runs until it is stopped."""

    images: tuple[str, ...] = ()
    """The images that behave so, with a tag or, for all tags, without."""
    does: str = "runs until it is stopped"
    """One sentence for people."""
    holds_mib: int = 0
    """Memory of the first card that the container sees, in MiB (1024² bytes), held from start to end."""
    process: str = "app"
    """The process's name in the card's list."""
    prints: tuple[str, ...] = ()
    """Lines of its log."""
    prints_after: tuple[float, ...] = ()
    """When each of these lines comes, in seconds from the start; at once where it is not said."""
    exits_after: float | None = None
    """Seconds from start to its own end; None: never."""
    exit_code: int = 0
    """With which it ends by itself."""
    stop_seconds: float = 0.0
    """How long it goes on after it was told to stop."""
    environment: dict[str, str] = {}
    """The image's own variables (``ENV``)."""


class _File(Behaviour, frozen=True, forbid_unknown_fields=True):
    """Without the images nothing would behave so."""

    images: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class Behaviours:
    """All behaviours, found by image."""

    def __init__(self, behaviours: Iterable[Behaviour] = ()) -> None:
        self._by_image: dict[str, Behaviour] = {}
        for behaviour in behaviours:
            for image in behaviour.images:
                if image in self._by_image:
                    raise BehaviourError(f"image {image} has two behaviours; name it in one file only")
                self._by_image[image] = behaviour

    @classmethod
    def load(cls, folder: Path = _FOLDER) -> Self:
        """Read every ``*.yaml`` of a folder. Raises ClusterError that names the file and what is wrong in it."""
        return cls(read_yaml(path, _File, "a behaviour") for path in sorted(folder.glob("*.yaml")))

    def of(self, image: str, command: tuple[str, ...] = (), environment: Mapping[str, str] | None = None) -> Behaviour:
        """The behaviour of a container. Raises BehaviourError for a variable that is no number.

        A command that is understood (``clusters.images.image_command``) replaces what the image does, as it would for a real
        container; the variables ``SIMULATED_HOLDS_MIB``, ``_EXITS_AFTER``, ``_EXIT_CODE`` and ``_STOP_SECONDS`` change
        single fields.
        """
        behaviour = next((self._by_image[name] for name in names_of(image) if name in self._by_image), Behaviour())
        outcome = outcome_of(command, environment or {})
        if outcome is not None:
            behaviour = Behaviour(
                does=" ".join(command),
                environment=behaviour.environment,
                prints=outcome.prints,
                prints_after=outcome.prints_after,
                exits_after=outcome.after,
                exit_code=outcome.code,
            )
        return replace(behaviour, **_overrides(environment or {}))


def names_of(image: str) -> tuple[str, ...]:
    """An image's names, the closest first: as written, without digest, registry and tag."""
    plain = image.partition("@")[0]
    registry, slash, rest = plain.partition("/")
    without_registry = rest if slash and ("." in registry or ":" in registry or registry == "localhost") else plain
    short = without_registry.removeprefix("library/")
    tagged = dict.fromkeys((image, plain, without_registry, short))
    return tuple(tagged | dict.fromkeys(_without_tag(name) for name in (plain, without_registry, short)))


def _without_tag(name: str) -> str:
    path, slash, last = name.rpartition("/")
    return path + slash + last.partition(":")[0]


def _overrides(environment: Mapping[str, str]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for field, number in _NUMBERS.items():
        name = OVERRIDE_PREFIX + field.upper()
        if name in environment:
            try:
                changed[field] = number(environment[name])
            except ValueError as error:
                raise BehaviourError(f"{name}={environment[name]!r} is not a number") from error
    return changed
