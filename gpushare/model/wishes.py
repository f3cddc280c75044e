"""What a pod wishes of its card, by annotations that people write. Pure.

A wish that cannot be read is an error with its reason, never no wish: a pod that named a card must not get another. The
texts are constant for each annotation, so that the scheduler can count them over nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.errors import InvalidWishError
from gpushare.manifests import Pod

# A model's words, as drivers write them: "Tesla T4", "NVIDIA A100-SXM4-80GB", "GeForce GTX 1080 Ti".
_WORD: Final = re.compile(r"[a-z0-9]+")
_UUID: Final = re.compile(r"(gpu|mig)-[0-9a-f][-0-9a-f]{0,80}")
# As a label's value, so that a group can be selected by one as well.
_GROUP: Final = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_PARTS: Final = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})+")
# More cards than a node has.
_MOST_PARTS: Final = 64

Words = tuple[str, ...]


class Wishes(NamedTuple):
    """What a pod wishes; empty, 0 and False where it says nothing.

    ``models`` and ``banned_models`` are the words of one model each; ``group`` is ``namespace/name`` of those who share a card;
    ``split`` are units, one number a card, the largest first; ``whole``: a card of its own.
    """

    policy: str = ""
    models: tuple[Words, ...] = ()
    banned_models: tuple[Words, ...] = ()
    uuids: frozenset[str] = frozenset()
    banned_uuids: frozenset[str] = frozenset()
    group: str = ""
    split: tuple[int, ...] = ()
    whole: bool = False

    @property
    def names_cards(self) -> bool:
        """Must one know which model or which UUID a card is?"""
        return bool(self.models or self.banned_models or self.uuids or self.banned_uuids)

    def allow(self, model: str, uuid: str) -> bool:
        """Is a card of this model and UUID one of those wished for?"""
        words, uuid = words_of(model), uuid.lower()
        if uuid in self.banned_uuids or (self.uuids and uuid not in self.uuids):
            return False
        if any(_contains(words, banned) for banned in self.banned_models):
            return False
        return not self.models or any(_contains(words, wanted) for wanted in self.models)


NONE: Final = Wishes()


def wishes_of(pod: Pod) -> Wishes:
    """What the pod's annotations wish. Raises InvalidWishError for one that cannot be read."""
    annotations = pod.metadata.annotations
    if not annotations or not any(name.startswith(wire.PEOPLE_PREFIX) for name in annotations):
        return NONE
    split, whole = _split(annotations)
    group = _group(annotations)
    return Wishes(
        policy=_policy(annotations),
        models=_models(annotations, wire.WISH_MODEL),
        banned_models=_models(annotations, wire.WISH_MODEL_NOT),
        uuids=_uuids(annotations, wire.WISH_UUID),
        banned_uuids=_uuids(annotations, wire.WISH_UUID_NOT),
        group=f"{pod.metadata.namespace}/{group}" if group else "",
        split=split,
        whole=whole,
    )


def words_of(model: str) -> Words:
    """The words by which models are compared: "A100" is one of "NVIDIA A100-SXM4-80GB", and "T4" none of "T400"."""
    return tuple(_WORD.findall(model.lower()))


def _contains(words: Words, some: Words) -> bool:
    """Do the words stand in the others, in their order and side by side?"""
    return any(words[at : at + len(some)] == some for at in range(len(words) - len(some) + 1))


def _policy(annotations: Mapping[str, str]) -> str:
    text = annotations.get(wire.WISH_POLICY)
    if text is None:
        return ""
    if text not in wire.POLICIES:
        raise _bad(wire.WISH_POLICY, f"none of {', '.join(wire.POLICIES)}")
    return text


def _models(annotations: Mapping[str, str], name: str) -> tuple[Words, ...]:
    models = tuple(words_of(item) for item in _items(annotations, name))
    if not all(models):
        raise _bad(name, "no list of models such as T4,A100")
    return models


def _uuids(annotations: Mapping[str, str], name: str) -> frozenset[str]:
    uuids = [item.lower() for item in _items(annotations, name)]
    if not all(map(_UUID.fullmatch, uuids)):
        raise _bad(name, "no list of UUIDs such as GPU-8dfb2fa8-…")
    return frozenset(uuids)


def _group(annotations: Mapping[str, str]) -> str:
    text = annotations.get(wire.WISH_SAME_CARD)
    if text is None:
        return ""
    if _GROUP.fullmatch(text) is None:
        raise _bad(wire.WISH_SAME_CARD, "no name (letters and digits, with - _ . between)")
    return text


def _split(annotations: Mapping[str, str]) -> tuple[tuple[int, ...], bool]:
    text = annotations.get(wire.WISH_SPLIT)
    if text is None or text.strip() == wire.WHOLE_CARD:
        return (), text is not None
    parts = "".join(text.split())
    numbers = [int(part) for part in parts.split(",")] if _PARTS.fullmatch(parts) else []
    if not numbers or not all(numbers) or len(numbers) > _MOST_PARTS:
        raise _bad(wire.WISH_SPLIT, 'neither units for each of several cards, such as 8,4, nor "whole"')
    return tuple(sorted(numbers, reverse=True)), False


def _items(annotations: Mapping[str, str], name: str) -> list[str]:
    """What stands between commas; nothing where there is no such annotation, and one empty item where it is empty."""
    text = annotations.get(name)
    return [] if text is None else [item.strip() for item in text.split(",")]


def _bad(name: str, what: str) -> InvalidWishError:
    return InvalidWishError(f"annotation {name} is {what}")
