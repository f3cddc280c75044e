"""Which pods are expected to come, from a file (``--expected-pods``), for the policy ``fragmentation``::

    pods:
    - {gpu-mem: 4, count: 120}
    - {gpu-mem: 16, cards: 2, cpu: 500m, card-model: [T4, A100], count: 3}

``gpu-mem`` is the pod's request of each of its ``cards`` (1 by default), in the units of the resource; ``cpu`` the
request of all its containers; ``count`` how often such pods come, in any measure. Pods that ask for no card are not expected: CPU
that they will take is not kept for others.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

from gpushare.bounds import CARD_TEXT, EXPECTED_PODS_BYTES, EXPECTED_PODS_LEVELS, WISH_ENTRIES, Bound
from gpushare.errors import InvalidQuantityError, UsageError
from gpushare.model.outlook import Outlook, PodClass
from gpushare.model.quantity import parse_milli, parse_quantity
from gpushare.model.wishes import Wishes, words_of

_Whole = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


_Models = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=CARD_TEXT.most)]], msgspec.Meta(max_length=WISH_ENTRIES.most)
]


class _Line(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    gpu_mem: _Whole
    cards: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    cpu: str | int | float = 0
    card_model: _Models = []
    card_model_not: _Models = []
    count: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 1.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    pods: Annotated[list[_Line], msgspec.Meta(min_length=1, max_length=100_000)]


def read_expected(path: Path) -> Outlook:
    """Raises UsageError, which names the wrong place in the file."""
    try:
        text = _read_file(path, EXPECTED_PODS_BYTES)
        _check_nesting(text)
        lines = msgspec.convert(yaml.load(text, yaml.CSafeLoader), _File).pods
        counts: defaultdict[PodClass, float] = defaultdict(float)
        for line in lines:
            counts[_class(line)] += line.count
    except UsageError as error:
        raise UsageError(f"--expected-pods: {error}") from error
    except (yaml.YAMLError, msgspec.ValidationError, InvalidQuantityError, ValueError, RecursionError) as error:
        raise UsageError(f"--expected-pods: {path}: {' '.join(str(error).split())}") from error
    return Outlook(counts)


def _read_file(path: Path, bound: Bound) -> bytes:
    """The bytes of a regular file; a device or a pipe is refused, as it may never end.

    Raises UsageError, which begins with the path.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path}: not a regular file")
            found = file.read(bound.most + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if bound.exceeded(len(found)):
        raise UsageError(f"{path}: {bound.refusal}")
    return found


def _check_nesting(text: bytes) -> None:
    """Raises ValueError for a text of too many levels, before anything is made of it; YAMLError for one that is no YAML."""
    level = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if EXPECTED_PODS_LEVELS.exceeded(level):
            raise ValueError(EXPECTED_PODS_LEVELS.refusal)


def _class(line: _Line) -> PodClass:
    wishes = Wishes(models=_words(line.card_model), banned_models=_words(line.card_model_not))
    if parse_quantity(line.cpu) < 0:
        raise InvalidQuantityError(f"cpu is {line.cpu!r}, less than nothing")
    return PodClass(line.gpu_mem, line.cards, parse_milli(line.cpu), wishes)


def _words(models: list[str]) -> tuple[str, ...]:
    found = tuple(words_of(model) for model in models)
    if not all(found):
        raise ValueError(f"{models!r} is no list of models such as [T4, A100]")
    return found
