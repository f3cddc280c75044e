"""Which pods are expected to come, from a file (``--expected-pods``), for the policy ``fragmentation``::

    pods:
    - {gpu-mem: 4, count: 120}
    - {gpu-mem: 16, cards: 2, cpu: 500m, card-model: [T4, A100], count: 3}

``gpu-mem`` is the pod's request of each of its cards, in the units of the resource; ``cards`` is 1 by default; ``cpu`` the
request of all its containers; ``count`` how often such pods come, of which only the proportions count. Pods without a card
cannot be listed, so no CPU is set aside for them.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Annotated

import msgspec

from gpushare.bounds import CARD_TEXT, EXPECTED_PODS_BYTES, WISH_ENTRIES
from gpushare.errors import InvalidQuantityError, UsageError
from gpushare.foreign import UnreadableError, decode_yaml
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.quantity import parse_milli, parse_quantity
from gpushare.model.wishes import Wishes, words_of

_Models = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=CARD_TEXT.most)]], msgspec.Meta(max_length=WISH_ENTRIES.most)
]


class _Line(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    gpu_mem: Annotated[int, msgspec.Meta(ge=1, le=10**9)]
    cards: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    cpu: str | int | float = 0
    card_model: _Models = []
    card_model_not: _Models = []
    count: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 1.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    pods: Annotated[list[_Line], msgspec.Meta(min_length=1, max_length=100_000)]


def read_expected(path: Path) -> Forecast:
    """The forecast that the file describes. Raises UsageError, which names the file and what is wrong in it."""
    counts: defaultdict[PodClass, float] = defaultdict(float)
    try:
        if not path.is_file() and path.exists():
            raise ValueError("not a regular file")
        if EXPECTED_PODS_BYTES.exceeded(path.stat().st_size):
            raise ValueError(EXPECTED_PODS_BYTES.refusal)
        for line in msgspec.convert(decode_yaml(path.read_bytes()), _File).pods:
            counts[_class(line)] += line.count
    except OSError as error:
        raise UsageError(f"--expected-pods: {path}: {error.strerror}") from error
    except UnreadableError as error:
        raise UsageError(f"--expected-pods: {path}: {error}{error.place}") from error
    except (msgspec.ValidationError, InvalidQuantityError, ValueError) as error:
        raise UsageError(f"--expected-pods: {path}: {' '.join(str(error).split())}") from error
    return Forecast(counts)


def _class(line: _Line) -> PodClass:
    wishes = Wishes(models=_words(line.card_model), banned_models=_words(line.card_model_not))
    if parse_quantity(line.cpu) < 0:
        raise InvalidQuantityError(f"cpu is {line.cpu!r}, which is negative")
    return PodClass(line.gpu_mem, line.cards, parse_milli(line.cpu), wishes)


def _words(models: list[str]) -> tuple[str, ...]:
    found = tuple(words_of(model) for model in models)
    if not all(found):
        raise ValueError(f"{models!r} is no list of models such as [T4, A100]")
    return found
