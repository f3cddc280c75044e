"""Promises of gpushare.deviceplugin.core.container_answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.core.container_answer import Answered, ContainerAnswer, answer
from gpushare.errors import NoCandidateError
from gpushare.model.cards import CardFacts

CARD = CardFacts(1, "GPU-1a2b", "Tesla T4", 15079, 14)
OTHER = CardFacts(2, "GPU-3c4d", "Tesla T4", 15079, 14)
NVML = {"GPU-1a2b": 5, "GPU-3c4d": 0}
IDS = ["gs-1a2b-7", "gs-1a2b-3"]
OURS = {
    "ALIYUN_COM_GPU_MEM_IDX": "1",
    "ALIYUN_COM_GPU_MEM_POD": "5",
    "ALIYUN_COM_GPU_MEM_CONTAINER": "2",
    "ALIYUN_COM_GPU_MEM_DEV": "14",
}


MOUNTS = "/var/run/nvidia-container-devices"
VOID, VISIBLE = {"NVIDIA_VISIBLE_DEVICES": "void", **OURS}, {"NVIDIA_VISIBLE_DEVICES": "GPU-1a2b", **OURS}
WAYS: dict[str, tuple[ContainerFlags, ContainerAnswer]] = {
    "five variables, and no more": (ContainerFlags(("envvar",), "uuid"), ContainerAnswer(VISIBLE)),
    "D27, NVML's index, which moves with the machine": (
        ContainerFlags(("envvar",), "index"), ContainerAnswer({"NVIDIA_VISIBLE_DEVICES": "5", **OURS}),
    ),
    "CDI by CRI, and the variable names none": (
        ContainerFlags(("cdi-cri",), "uuid"), ContainerAnswer(VOID, cdi_devices=("nvidia.com/gpu=GPU-1a2b",)),
    ),
    "a CDI annotation, with an id that no container shares": (
        ContainerFlags(("cdi-annotations",), "index"),
        ContainerAnswer(VOID, annotations={"cdi.k8s.io/gpushare_gs-1a2b-3": "nvidia.com/gpu=5"}),
    ),
    "mounts, and the variable names their folder": (
        ContainerFlags(("volume-mounts",), "uuid"),
        ContainerAnswer({"NVIDIA_VISIBLE_DEVICES": MOUNTS, **OURS}, mounts={f"{MOUNTS}/GPU-1a2b": "/dev/null"}),
    ),
    "several ways, with a kind and a prefix of the site": (
        ContainerFlags(("envvar", "cdi-cri", "cdi-annotations"), "uuid", "example.com/card", "cdi.example.com/"),
        ContainerAnswer(
            VISIBLE,
            annotations={"cdi.example.com/gpushare_gs-1a2b-3": "example.com/card=GPU-1a2b"},
            cdi_devices=("example.com/card=GPU-1a2b",),
        ),
    ),
}  # fmt: skip


@pytest.mark.promise("DP-019")
@pytest.mark.parametrize(("rules", "expected"), WAYS.values(), ids=WAYS.keys())
def test_dp_019_the_answer_names_the_card_as_asked_for(rules: ContainerFlags, expected: ContainerAnswer) -> None:
    """Two of a pod's five units of card 1, by each way of naming a card."""
    assert answer([CARD], 2, 5, NVML, IDS, rules) == expected


def test_a_card_that_nvml_does_not_show_has_no_index() -> None:
    """An error with the remedy, not another card."""
    with pytest.raises(
        NoCandidateError, match=r"card 1 \(GPU-1a2b\).*; --device-id-strategy uuid does not depend on them$"
    ):
        answer([CARD], 2, 5, {}, IDS, ContainerFlags(id_strategy="index"))


def test_a_limit_comes_with_a_request_of_nothing() -> None:
    """Without the request the hook would take the limit for one, and reserve it above the container for ever."""
    limited = answer([CARD], 2, 5, NVML, IDS, ContainerFlags(), limit=Answered(2048)).variables
    assert limited == {**VISIBLE, "NVIDIA_GPU_MEMORY_REQUEST": "0", "NVIDIA_GPU_MEMORY_LIMIT": "2048"}


def test_a_node_without_isolation_and_several_cards_are_named() -> None:
    """The original's variable for cGPU; commas for the runtime and for the index, and the sum, so that a share stays a share."""
    off = answer([CARD], 2, 5, NVML, IDS, ContainerFlags(), isolation_off=True).variables
    several = answer([CARD, OTHER], 20, 20, NVML, IDS, ContainerFlags()).variables

    assert off["CGPU_DISABLE"] == "true"
    assert several == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1a2b,GPU-3c4d",
        "ALIYUN_COM_GPU_MEM_IDX": "1,2",
        "ALIYUN_COM_GPU_MEM_POD": "20",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "20",
        "ALIYUN_COM_GPU_MEM_DEV": "28",
    }


@given(st.text("aX0-_.", min_size=1, max_size=120))
def test_an_annotations_key_is_never_too_long(request: str) -> None:
    """At most 63 characters after the slash, of which the last is a letter or digit; the devices are joined with commas."""
    rules = ContainerFlags(("cdi-annotations",), "index")
    ((key, devices),) = (answer([CARD, OTHER], 2, 5, NVML, [request], rules).annotations or {}).items()
    name = key.removeprefix("cdi.k8s.io/")
    cut = f"gpushare_{request}"[:63].removeprefix(name)

    assert (len(name) <= 63, name[-1].isalnum(), devices) == (True, True, "nvidia.com/gpu=5,nvidia.com/gpu=0")
    assert set(cut) <= set("-_.")
