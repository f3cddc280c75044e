"""Each container sees the card in its pod's annotation, and gets the right amounts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from e2e import spec
from e2e.checkers.history import Entry, Finding, Object, State, Told, name_of
from e2e.checkers.overcommit import shares_or_none
from e2e.checkers.pod_requests import gpu_containers, units_of

# A container gets the sum of its pod. This may be wrong after a guess: the plugin goes by the order of bindings, but a kubelet that
# starts uses another order and skips deleted pods. Card and amount are corrected before the container starts; the variable with
# the sum cannot be.
SUM: Final = "sum of the pod"
_CARD: Final = "right card"
# Which pods have this mark is a promise of its own.
MARK: Final = "assigned mark"
# Values of NVIDIA_VISIBLE_DEVICES with which NVIDIA's runtime takes the card from a mount or from CDI.
OTHER_MEANS: Final = ("/var/run/nvidia-container-devices", "void")

_UUID: Final = "GPU-"


def right_card(state: State, entry: Entry) -> Iterator[Finding]:
    """The containers of a pod have the card of its annotation, and their amounts."""
    if isinstance(entry, Told) and (pod := state.pods.get(entry.uid)) is not None:
        cards = state.cards.get(pod["spec"].get("nodeName", ""), {})
        uuids = {index: card.uuid for index, card in cards.items()}
        yield from check_pod(pod, entry.containers, uuids, at=entry.at)


def check_pod(
    pod: Object,
    containers: Sequence[Mapping[str, str]],
    uuids: Mapping[int, str],
    *,
    by_other_means: bool = False,
    at: float = 0.0,
) -> list[Finding]:
    """Findings for one pod; ``containers`` are the variables of its GPU containers in their order.

    With ``by_other_means`` the card may be given as a mount or as a device of CDI, which the container's variables do not show,
    or by a UUID that is not known.
    """
    texts: list[tuple[str, str]] = []
    annotations = pod["metadata"].get("annotations") or {}
    index = annotations.get(spec.POD_INDEX)
    if len(cards := shares_or_none(pod) or {}) > 1:
        texts += _on_several(
            containers, [str(one.units) for one in gpu_containers(pod)], {uuids.get(one) for one in cards}
        )
    elif index is None:
        texts.append((_CARD, "no annotation names a card"))
    else:
        uuid = next((uuid for card, uuid in uuids.items() if str(card) == index), None)
        amounts = [str(one.units) for one in gpu_containers(pod)]
        if len(containers) != len(amounts):
            texts.append((_CARD, f"{len(amounts)} containers ask for memory, {len(containers)} got variables of ours"))
        for number, (given, amount) in enumerate(zip(containers, amounts, strict=False)):
            expected = (
                (_CARD, spec.ENV_INDEX, index),
                (_CARD, spec.ENV_CONTAINER_UNITS, amount),
                (SUM, spec.ENV_POD_UNITS, str(units_of(pod))),
            )
            texts += [
                (rule, f"container {number}: {key} is {given.get(key)}, should be {value}")
                for rule, key, value in expected
                if given.get(key) != value
            ]
            shown = given.get(spec.ENV_VISIBLE, "")
            # A node that does not publish UUIDs leaves open which card has this UUID.
            is_open = shown in OTHER_MEANS or (shown.startswith(_UUID) and uuid is None)
            if shown not in (uuid, index) and not (by_other_means and is_open):
                texts.append(
                    (_CARD, f"container {number}: sees {given.get(spec.ENV_VISIBLE)}, should see card {index}")
                )
        if annotations.get(spec.POD_ASSIGNED) != "true":
            texts.append(
                (MARK, f"annotation {spec.POD_ASSIGNED} is {annotations.get(spec.POD_ASSIGNED)}, should be true")
            )
    return [Finding(rule, at, text, name_of(pod), pod["spec"].get("nodeName") or "") for rule, text in texts]


def _on_several(
    containers: Sequence[Mapping[str, str]], amounts: Sequence[str], uuids: Set[str | None]
) -> Iterator[tuple[str, str]]:
    """Each container of a pod that is split sees all of its cards, and has its amount."""
    seen = [
        (given.get(spec.ENV_CONTAINER_UNITS), set(given.get(spec.ENV_VISIBLE, "").split(","))) for given in containers
    ]
    if seen != [(amount, uuids) for amount in amounts]:
        yield _CARD, f"containers have {seen}, should have {amounts} on {sorted(map(str, uuids))}"
