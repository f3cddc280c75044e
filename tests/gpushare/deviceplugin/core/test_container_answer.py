"""Promises of gpushare.deviceplugin.core.container_answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.core.container_answer import ContainerAnswer, Granted, answer
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


def told(*strategies: str, by: str = "uuid", granted: Granted | None = None) -> ContainerAnswer:
    """The answer for two of a pod's five units of card 1."""
    return answer(granted or Granted((CARD,), 2, 5), NVML, IDS, ContainerFlags(strategies, by))


@pytest.mark.promise("DP-019")
def test_dp_019_the_variables_are_the_contract_and_no_more() -> None:
    """By default five variables, no mounts, no devices, no annotations."""
    assert told("envvar") == ContainerAnswer({"NVIDIA_VISIBLE_DEVICES": "GPU-1a2b", **OURS})


def test_d27_by_index_the_runtime_gets_nvmls_not_ours() -> None:
    """D27: our index is the pod's annotation; NVML's moves with the machine."""
    variables = told("envvar", by="index").variables

    assert (variables["NVIDIA_VISIBLE_DEVICES"], variables["ALIYUN_COM_GPU_MEM_IDX"]) == ("5", "1")


def test_a_card_that_nvml_does_not_show_has_no_index() -> None:
    """An error with the remedy, not another card."""
    with pytest.raises(
        NoCandidateError, match=r"card 1 \(GPU-1a2b\).*; --device-id-strategy uuid does not depend on them$"
    ):
        answer(Granted((CARD,), 2, 5), {}, IDS, ContainerFlags(id_strategy="index"))


def test_a_node_without_isolation_says_so() -> None:
    """The original's variable for cGPU."""
    variables = told("envvar", granted=Granted((CARD,), 2, 5, isolation_off=True)).variables

    assert variables["CGPU_DISABLE"] == "true"


def test_several_cards_are_named_together() -> None:
    """Commas for the runtime and for the index; the sum, so that a share of it stays a share."""
    variables = told("envvar", granted=Granted((CARD, OTHER), 20, 20)).variables

    assert variables == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-1a2b,GPU-3c4d",
        "ALIYUN_COM_GPU_MEM_IDX": "1,2",
        "ALIYUN_COM_GPU_MEM_POD": "20",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "20",
        "ALIYUN_COM_GPU_MEM_DEV": "28",
    }


def test_cdi_by_cri_names_the_card_and_the_variable_none() -> None:
    """An image that asks for all cards gets none by it: only the CDI's."""
    assert told("cdi-cri") == ContainerAnswer(
        {"NVIDIA_VISIBLE_DEVICES": "void", **OURS}, cdi_devices=("nvidia.com/gpu=GPU-1a2b",)
    )


def test_cdi_annotation_has_an_id_that_no_container_shares() -> None:
    """Runtimes merge the annotations of a container; two requests must not be one."""
    assert told("cdi-annotations", by="index") == ContainerAnswer(
        {"NVIDIA_VISIBLE_DEVICES": "void", **OURS}, annotations={"cdi.k8s.io/gpushare_gs-1a2b-3": "nvidia.com/gpu=5"}
    )


def test_by_mounts_the_variable_names_their_folder() -> None:
    """The variable names the folder of the mounts, so only a container that may mount below it can choose a card."""
    folder = "/var/run/nvidia-container-devices"

    assert told("volume-mounts") == ContainerAnswer(
        {"NVIDIA_VISIBLE_DEVICES": folder, **OURS}, mounts={f"{folder}/GPU-1a2b": "/dev/null"}
    )


def test_several_ways_may_be_given() -> None:
    """A runtime takes the one that it knows; kind and prefix are the site's."""
    rules = ContainerFlags(("envvar", "cdi-cri", "cdi-annotations"), "uuid", "example.com/card", "cdi.example.com/")

    assert answer(Granted((CARD,), 2, 5), NVML, IDS, rules) == ContainerAnswer(
        {"NVIDIA_VISIBLE_DEVICES": "GPU-1a2b", **OURS},
        annotations={"cdi.example.com/gpushare_gs-1a2b-3": "example.com/card=GPU-1a2b"},
        cdi_devices=("example.com/card=GPU-1a2b",),
    )


@given(st.text("aX0-_.", min_size=1, max_size=120))
def test_an_annotations_key_is_never_too_long(request: str) -> None:
    """At most 63 characters after the slash, of which the last is a letter or digit; the devices are joined with commas."""
    rules = ContainerFlags(("cdi-annotations",), "index")
    ((key, devices),) = (answer(Granted((CARD, OTHER), 2, 5), NVML, [request], rules).annotations or {}).items()
    name = key.removeprefix("cdi.k8s.io/")
    cut = f"gpushare_{request}"[:63].removeprefix(name)

    assert (len(name) <= 63, name[-1].isalnum(), devices) == (True, True, "nvidia.com/gpu=5,nvidia.com/gpu=0")
    assert set(cut) <= set("-_.")
