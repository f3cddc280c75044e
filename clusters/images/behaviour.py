"""The behaviour of each image: the YAML files of this folder, as values. Pure except for ``Behaviours.load``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec.structs import replace

from clusters.provider import read_yaml

SHELLS: Final = ("sh", "/bin/sh", "bash", "/bin/bash")
_SEPARATOR: Final = re.compile(r"\s*(&&|;|\n)\s*")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a command, its duration in seconds (None: for ever) and its exit code."""

    prints: tuple[str, ...] = ()
    after: float | None = 0.0
    code: int = 0
    prints_after: tuple[float, ...] = ()
    """When each line comes, in seconds from the start."""


def outcome_of(command: Sequence[str], environment: Mapping[str, str]) -> Outcome | None:
    """The result of a command, or None if it is not understood (or there is none)."""
    if len(command) == 3 and command[0] in SHELLS and re.fullmatch(r"-[a-z]*c", command[1]):
        return _script(command[2], environment)
    return _step(list(command), environment) if command else None


def _script(text: str, environment: Mapping[str, str]) -> Outcome | None:
    total = Outcome()
    parts = _SEPARATOR.split(text.strip().removesuffix(";"))
    for separator, part in zip([";", *parts[1::2]], parts[::2], strict=True):
        if separator == "&&" and total.code != 0:
            continue
        words = _words(part)
        step = _step(words, environment)
        if step is None:
            return None
        total = _then(total, step)
        if total.after is None or words[:1] == ["exit"]:
            break
    return total


def _then(first: Outcome, second: Outcome) -> Outcome:
    begins = first.after or 0.0
    after = None if first.after is None or second.after is None else begins + second.after
    at_once = (0.0,) * len(first.prints)
    times = (*(first.prints_after or at_once), *(begins for _ in second.prints))
    return Outcome((*first.prints, *second.prints), after, second.code, times if any(times) else ())


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part)
    except ValueError:
        return [part]


def _step(words: list[str], environment: Mapping[str, str]) -> Outcome | None:
    match words:
        case ["true" | "/bin/true"]:
            return Outcome()
        case ["false" | "/bin/false"]:
            return Outcome(code=1)
        case ["echo", *rest]:
            return Outcome(prints=(" ".join(rest),))
        case ["env" | "printenv"]:
            return Outcome(prints=tuple(f"{name}={value}" for name, value in sorted(environment.items())))
        case ["exit", code] if code.isdecimal():
            return Outcome(code=int(code) % 256)
        case ["sleep" | "/bin/sleep", duration]:
            return _sleep(duration)
    return None


def _sleep(duration: str) -> Outcome | None:
    if duration in ("infinity", "inf"):
        return Outcome(after=None)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", duration)
    if match is None:
        return None
    return Outcome(after=float(match[1]) * _UNITS[match[2] or "s"])


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

        A command that is understood (``outcome_of``) replaces what the image does, as it would for a real
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
