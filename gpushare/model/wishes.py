"""The wishes of a pod for its card, by annotations that people write. Pure.

A wish that cannot be read is an error with its reason, never no wish: a pod that named a card must not get another. The
texts are constant for each annotation, so that the scheduler can count them over nodes. An annotation that is too large is refused
before it is split, so the work and the memory for a pod do not grow with the text that its author writes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.bounds import WISH_CHARACTERS, WISH_ENTRIES, Bound
from gpushare.errors import InvalidWishError
from gpushare.manifests import Pod

# A model's words, as drivers write them: "Tesla T4", "NVIDIA A100-SXM4-80GB", "GeForce GTX 1080 Ti".
_WORD: Final = re.compile(r"[a-z0-9]+")
_UUID: Final = re.compile(r"(gpu|mig)-[0-9a-f][-0-9a-f]{0,80}")
# As a label's value, so that a group can be selected by one as well.
_GROUP: Final = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_PARTS: Final = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})+")

# So much of an unknown annotation's name is kept and shown: more than any wish has.
_LONGEST_NAME: Final = 100
# How alike a name must be to a wish to be taken for a misspelt one, from 0 to 1.
_NEAR: Final = 0.8

# The words of a model with a blank before, between and after them, so that one model can be looked for in another.
Words = str


class Wishes(NamedTuple):
    """The wishes of a pod; empty, 0 and False for those that it does not have.

    ``models`` and ``banned_models`` are the words of one model each; ``group`` is ``namespace/name`` of the pods that share a card;
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
        """Is it necessary to know which model or which UUID a card is?"""
        return bool(self.models or self.banned_models or self.uuids or self.banned_uuids)

    def allow_uuid(self, uuid: str) -> bool:
        """Is a card of this UUID one of those wished for? One look, however many are named."""
        uuid = uuid.lower()
        return uuid not in self.banned_uuids and (not self.uuids or uuid in self.uuids)

    # There are few models in a cluster, and to compare them word by word takes long.
    @lru_cache(maxsize=4096)  # noqa: B019  # of values
    def allow_model(self, model: str) -> bool:
        """Is a card of this model one of those wished for? Compares it with each model that is named."""
        words = words_of(model)
        if any(banned in words for banned in self.banned_models):
            return False
        return not self.models or any(wanted in words for wanted in self.models)


NONE: Final = Wishes()


def wishes_of(pod: Pod) -> Wishes:
    """The wishes in the pod's annotations. Raises InvalidWishError for one that cannot be read."""
    annotations = pod.metadata.annotations
    if not annotations or not any(name.startswith(wire.PEOPLE_PREFIX) for name in annotations):
        return NONE
    if unknown := unknown_wish(annotations):
        raise _misspelt(unknown)
    return _read(pod.metadata.namespace, annotations)


def wishes_or_none(pod: Pod) -> Wishes:
    """The wishes of a pod that has its card already; none if they cannot be read. An unknown one does not matter any more."""
    try:
        return _read(pod.metadata.namespace, pod.metadata.annotations or {})
    except InvalidWishError:
        return NONE


def unknown_wish(annotations: Mapping[str, str]) -> str:
    """The first annotation below our prefix that is no wish, cut to a bounded length; "" if there is none."""
    unknown = (name for name in annotations if name.startswith(wire.PEOPLE_PREFIX) and name not in wire.WISHES)
    return min((name[:_LONGEST_NAME] for name in unknown), default="")


def _misspelt(name: str) -> InvalidWishError:
    wishes = [wish.removeprefix(wire.PEOPLE_PREFIX) for wish in wire.WISHES]
    near = difflib.get_close_matches(name.removeprefix(wire.PEOPLE_PREFIX).lower(), wishes, 1, _NEAR)
    advice = f"did you mean {wire.PEOPLE_PREFIX}{near[0]}?" if near else f"there are {', '.join(wishes)}"
    return InvalidWishError(f"annotation {name} is no wish that gpushare knows; {advice}")


def _read(namespace: str, annotations: Mapping[str, str]) -> Wishes:
    if annotations.keys().isdisjoint(wire.WISHES):
        return NONE
    split, whole = _split(annotations)
    group = _group(annotations)
    return Wishes(
        policy=_policy(annotations),
        models=_models(annotations, wire.WISH_MODEL),
        banned_models=_models(annotations, wire.WISH_MODEL_NOT),
        uuids=_uuids(annotations, wire.WISH_UUID),
        banned_uuids=_uuids(annotations, wire.WISH_UUID_NOT),
        group=f"{namespace}/{group}" if group else "",
        split=split,
        whole=whole,
    )


def words_of(model: str) -> Words:
    """The words by which models are compared, "" if there are none: "A100" is in "NVIDIA A100-SXM4-80GB", "T4" not in "T400"."""
    found = _WORD.findall(model.lower())
    return f" {' '.join(found)} " if found else ""


def _policy(annotations: Mapping[str, str]) -> str:
    text = _text(annotations, wire.WISH_POLICY)
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
    text = _text(annotations, wire.WISH_SAME_CARD)
    if text is None:
        return ""
    if _GROUP.fullmatch(text) is None:
        raise _bad(wire.WISH_SAME_CARD, "no name (letters and digits, with - _ . between)")
    return text


def _split(annotations: Mapping[str, str]) -> tuple[tuple[int, ...], bool]:
    text = _text(annotations, wire.WISH_SPLIT)
    if text is None or text.strip() == wire.WHOLE_CARD:
        return (), text is not None
    parts = "".join(text.split())
    is_list = not WISH_ENTRIES.exceeded(parts.count(",") + 1) and _PARTS.fullmatch(parts)
    numbers = [int(part) for part in parts.split(",")] if is_list else []
    if not numbers or not all(numbers):
        raise _bad(wire.WISH_SPLIT, 'neither units for each of several cards, such as 8,4, nor "whole"')
    return tuple(sorted(numbers, reverse=True)), False


def _items(annotations: Mapping[str, str], name: str) -> list[str]:
    """The texts between commas; none if there is no such annotation, and one empty text if it is empty."""
    text = _text(annotations, name)
    if text is None:
        return []
    if WISH_ENTRIES.exceeded(text.count(",") + 1):
        raise _too_large(name, WISH_ENTRIES)
    return [item.strip() for item in text.split(",")]


def _text(annotations: Mapping[str, str], name: str) -> str | None:
    """An annotation that may be read. Nothing else here looks into one before this has."""
    text = annotations.get(name)
    if text is not None and WISH_CHARACTERS.exceeded(len(text)):
        raise _too_large(name, WISH_CHARACTERS)
    return text


def _too_large(name: str, bound: Bound) -> InvalidWishError:
    return InvalidWishError(bound._replace(what=f"annotation {name}").refusal)


def _bad(name: str, what: str) -> InvalidWishError:
    return InvalidWishError(f"annotation {name} is {what}")
