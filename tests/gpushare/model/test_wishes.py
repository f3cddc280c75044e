"""Promises of gpushare.model.wishes."""

from __future__ import annotations

import pytest

from gpushare import wire
from gpushare.bounds import WISH_CHARACTERS, WISH_ENTRIES, Bound
from gpushare.errors import InvalidWishError
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.pod import kept_of
from gpushare.model.wishes import NONE, Wishes, unknown_wish, wishes_of, wishes_or_none


def pod(**annotations: str) -> Pod:
    """A pod that wishes: ``card_model="T4"`` for ``gpushare.aliyun.com/card-model: T4``."""
    named = {wire.PEOPLE_PREFIX + name.replace("_", "-"): text for name, text in annotations.items()}
    return Pod(metadata=ObjectMeta(name="p", namespace="ns", annotations=named))


@pytest.mark.parametrize(
    ("annotations", "wishes"),
    [
        ({"policy": "spread"}, Wishes(policy="spread")),
        ({"card_model": "T4, A100-SXM4"}, Wishes(models=(" t4 ", " a100 sxm4 "))),
        ({"card_model_not": "GTX 1080 Ti"}, Wishes(banned_models=(" gtx 1080 ti ",))),
        ({"card_uuid": "GPU-8DFB2FA8-1b, GPU-1"}, Wishes(uuids=frozenset({"gpu-8dfb2fa8-1b", "gpu-1"}))),
        ({"card_uuid_not": "GPU-1"}, Wishes(banned_uuids=frozenset({"gpu-1"}))),
        ({"same_card": "train.eval"}, Wishes(group="ns/train.eval")),
        ({"split": "4, 8"}, Wishes(split=(8, 4))),
        ({"split": ",".join(["1"] * 64)}, Wishes(split=(1,) * 64)),
        ({"split": "whole"}, Wishes(whole=True)),
    ],
)
def test_every_wish_is_read(annotations: dict[str, str], wishes: Wishes) -> None:
    """Blanks, case and order mean nothing; a name of a group is of its namespace."""
    assert wishes_of(pod(**annotations)) == wishes


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("card-modell", "did you mean gpushare.aliyun.com/card-model?"),
        ("Card-Model", "did you mean gpushare.aliyun.com/card-model?"),
        ("card_uuid", "did you mean gpushare.aliyun.com/card-uuid?"),
        ("samecard", "did you mean gpushare.aliyun.com/same-card?"),
        ("splits", "did you mean gpushare.aliyun.com/split?"),
        ("policing", "there are policy, card-model, card-model-not, card-uuid, card-uuid-not, same-card, split"),
        ("recovered", "there are policy, card-model, card-model-not, card-uuid, card-uuid-not, same-card, split"),
        ("", "there are policy, card-model, card-model-not, card-uuid, card-uuid-not, same-card, split"),
        ("x" * 250_000, "there are policy, card-model, card-model-not, card-uuid, card-uuid-not, same-card, split"),
    ],
)
def test_an_unknown_wish_is_refused_with_the_nearest_one(name: str, advice: str) -> None:
    """The whole pod and the part of it that is kept get the same answer, of bounded length."""
    whole = Pod(metadata=ObjectMeta(annotations={wire.PEOPLE_PREFIX + name: "T4", wire.WISH_POLICY: "spread"}))
    texts = []
    for one in (whole, kept_of(whole)):
        with pytest.raises(InvalidWishError) as refused:
            wishes_of(one)
        texts.append(str(refused.value))

    assert texts[0] == texts[1]
    assert texts[0].startswith(f"annotation {(wire.PEOPLE_PREFIX + name)[:100]} is no wish that gpushare knows; ")
    assert texts[0].endswith(advice)


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        ((), ""),
        ((wire.WISH_POLICY, "app"), ""),
        ((wire.PEOPLE_PREFIX + "b", wire.PEOPLE_PREFIX + "a"), wire.PEOPLE_PREFIX + "a"),
    ],
)
def test_an_unknown_wish_is_found_by_its_name(names: tuple[str, ...], unknown: str) -> None:
    """The first by the alphabet, and an empty text if each is known."""
    assert unknown_wish(dict.fromkeys(names, "x")) == unknown


def test_pod_with_a_card_keeps_its_group_despite_unknown_wishes() -> None:
    """A pod that was bound by an older version stays with its group."""
    bound = Pod(
        metadata=ObjectMeta(namespace="ns", annotations={wire.PEOPLE_PREFIX + "old": "", wire.WISH_SAME_CARD: "g"})
    )

    assert wishes_or_none(bound).group == "ns/g"


@pytest.mark.parametrize("annotations", [None, {}, {"app": "web", wire.ANNOTATION_INDEX: "0"}])
def test_a_pod_without_wishes_is_recognised_immediately(annotations: dict[str, str] | None) -> None:
    """The one value: filter's short way looks for it."""
    assert wishes_of(Pod(metadata=ObjectMeta(annotations=annotations))) is NONE


MODELS, UUIDS = "no list of models such as T4,A100", "no list of UUIDs such as GPU-8dfb2fa8-…"
REFUSALS = {
    "policy": "none of binpack, spread, fragmentation",
    "card_model": MODELS,
    "card_model_not": MODELS,
    "card_uuid": UUIDS,
    "card_uuid_not": UUIDS,
    "same_card": "no name (letters and digits, with - _ . between)",
    "split": 'neither units for each of several cards, such as 8,4, nor "whole"',
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("policy", ""),
        ("policy", "Binpack"),
        ("card_model", ""),
        ("card_model", "T4,,A100"),
        ("card_model_not", "--"),
        ("card_uuid", "0"),
        ("card_uuid_not", "GPU-1,"),
        ("same_card", ""),
        ("same_card", "two words"),
        ("same_card", "x" * 64),
        ("split", ""),
        ("split", "8"),
        ("split", "8,0"),
        ("split", "8,-4"),
        ("split", "8;4"),
        ("split", "8,٤"),
        ("split", ",".join(["1"] * 65)),
    ],
)
def test_a_wish_that_cannot_be_read_is_an_error_that_names_it(name: str, text: str) -> None:
    """A wish that cannot be read is an error that names it. The text is always the same, so that the scheduler can count it."""
    with pytest.raises(InvalidWishError) as refused:
        wishes_of(pod(**{name: text}))
    assert wishes_or_none(pod(**{name: text})) is NONE

    assert str(refused.value) == f"annotation {wire.PEOPLE_PREFIX}{name.replace('_', '-')} is {REFUSALS[name]}"


@pytest.mark.parametrize(
    ("wanted", "model", "is_one"),
    [
        ("T4", "Tesla T4", True),
        ("t4", "NVIDIA T400 4GB", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", False),
        ("GTX 1080", "NVIDIA GeForce GTX 1080 Ti", True),
        ("1080 GTX", "NVIDIA GeForce GTX 1080 Ti", False),
        ("GTX Ti", "NVIDIA GeForce GTX 1080 Ti", False),
    ],
)
def test_models_are_compared_by_whole_words(wanted: str, model: str, is_one: bool) -> None:
    """Models are compared by whole words as people call them: in any case and without the maker. T4 is no T400."""
    assert wishes_of(pod(card_model=wanted)).allow_model(model) is is_one
    assert wishes_of(pod(card_model_not=wanted)).allow_model(model) is not is_one


@pytest.mark.parametrize(
    ("name", "text", "bound"),
    [
        ("card_model", "T4," * 83_000, WISH_CHARACTERS),
        ("card_uuid_not", ",".join(["GPU-1"] * 65), WISH_ENTRIES),
        ("same_card", "x" * 250_000, WISH_CHARACTERS),
    ],
)
def test_a_long_wish_is_refused(name: str, text: str, bound: Bound) -> None:
    """By a text that does not depend on what was written."""
    with pytest.raises(InvalidWishError) as refused:
        wishes_of(pod(**{name: text}))

    what = f"annotation {wire.PEOPLE_PREFIX}{name.replace('_', '-')}"
    assert str(refused.value) == bound._replace(what=what).refusal


def test_the_largest_wish_is_read() -> None:
    """The largest wish is read: as many entries as are taken, each as long as a UUID of NVIDIA's."""
    text = ",".join(f"GPU-{number:08x}-1b2c-4d5e-8f90-0123456789ab" for number in range(64))

    assert len(wishes_of(pod(card_uuid=text)).uuids) == 64
