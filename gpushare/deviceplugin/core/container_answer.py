"""The answer to a container: variables, mounts, devices of the CDI. Pure.

The variables are the original's contract. How the runtime learns the card is a choice, named as by NVIDIA
(``--device-list-strategy`` of its device plugin): by ``NVIDIA_VISIBLE_DEVICES`` (``envvar``), by mounts below a folder
that only an administrator can write (``volume-mounts``), or by the names of the CDI (``cdi-cri``,
``cdi-annotations``). Several may be given.

Names of the CDI follow its specification (version 0.6 and later): ``vendor/class=device``, and the last part of an
annotation's key has at most 63 characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.cli.plugin_flags import CDI_ANNOTATIONS, CDI_CRI, ENVVAR, VOLUME_MOUNTS, ContainerFlags
from gpushare.errors import NoCandidateError
from gpushare.model.cards import CardFacts

# Where NVIDIA's runtime looks for cards that are named by mounts, and what is mounted there: only its name counts.
_MOUNTS_FOLDER: Final = "/var/run/nvidia-container-devices"
_MOUNTED: Final = "/dev/null"
# NVIDIA's runtime takes this for "no card": without it, an image with "all" would get all cards beside its own.
_NO_CARD: Final = "void"
_LONGEST_KEY: Final = 63


class Answered(NamedTuple):
    """A container's limits in the answer to Allocate: the MiB for each of its cards, by variables, or our devices of the CDI."""

    mib: int | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerAnswer:
    """One container's part of the answer to Allocate. ``mounts`` are files of the host, by their path in the container."""

    variables: Mapping[str, str]
    mounts: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] | None = None
    cdi_devices: tuple[str, ...] = ()


def answer(
    cards: Sequence[CardFacts],
    units: int,
    pod_units: int,
    nvml_indices: Mapping[str, int],
    device_ids: Sequence[str],
    rules: ContainerFlags,
    *,
    isolation_off: bool = False,
    limit: Answered = Answered(),  # noqa: B008 - a value
) -> ContainerAnswer:
    """The answer for a container that gets ``device_ids`` of these cards (nearly always one), and so many of its pod's units.

    ``limit`` is what the driver lets it have of each card at most.
    ``nvml_indices`` are NVML's own, by UUID, for runtimes that get an index. For several cards ``…_IDX`` names all
    with commas and ``…_DEV`` is their sum. Raises NoCandidateError for a card that NVML does not show (any more).
    """
    names = [_name(card, nvml_indices, rules.id_strategy) for card in cards]
    chosen = rules.list_strategies
    devices = tuple(f"{rules.cdi_kind}={name}" for name in names)
    # For a runtime of before CRI's own field. An id makes the key one that no other container's request has.
    key = rules.cdi_annotation_prefix + f"gpushare_{min(device_ids)}"[:_LONGEST_KEY].rstrip("-_.")
    # A list by mounts needs the folder here; if only the CDI names the card, this names none.
    visible = _MOUNTS_FOLDER if VOLUME_MOUNTS in chosen else ",".join(names) if ENVVAR in chosen else _NO_CARD
    variables = {
        wire.ENV_VISIBLE_DEVICES: visible,
        wire.ENV_INDEX: ",".join(str(card.index) for card in cards),
        wire.ENV_POD_UNITS: str(pod_units),
        wire.ENV_CONTAINER_UNITS: str(units),
        wire.ENV_DEVICE_UNITS: str(sum(card.units for card in cards)),
    }
    if isolation_off:
        variables[wire.ENV_ISOLATION_OFF] = "true"
    if limit.mib is not None:
        # Without a request NVIDIA's hook sets one, which stays on the control groups above the container's for ever.
        variables |= {wire.ENV_MEMORY_REQUEST: "0", wire.ENV_MEMORY_LIMIT: str(limit.mib)}
    return ContainerAnswer(
        variables=variables,
        mounts={f"{_MOUNTS_FOLDER}/{name}": _MOUNTED for name in names if VOLUME_MOUNTS in chosen},
        annotations={key: ",".join(devices)} if CDI_ANNOTATIONS in chosen else None,
        # After those of the cards.
        cdi_devices=(*(devices if CDI_CRI in chosen else ()), *limit.devices),
    )


def _name(card: CardFacts, nvml_indices: Mapping[str, int], by: str) -> str:
    if by != "index":
        return card.uuid
    if card.uuid not in nvml_indices:
        raise NoCandidateError(
            f"card {card.index} ({card.uuid}) has no index in NVML now, and the runtime is told indices; "
            "--device-id-strategy uuid does not depend on them"
        )
    return str(nvml_indices[card.uuid])
