"""Promises of gpushare.deviceplugin.grpc_server.answer_message."""

from __future__ import annotations

import pytest

from gpushare.cli.plugin_flags import ContainerFlags
from gpushare.deviceplugin.core.container_answer import Granted, answer
from gpushare.deviceplugin.grpc_server import answer_message
from gpushare.model.cards import CardFacts

CARD = CardFacts(0, "GPU-1", "Tesla T4", 15079, 14)


def message(*strategies: str) -> bytes:
    """The bytes that a kubelet gets for two of a pod's five units."""
    told = answer(Granted((CARD,), 2, 5), {"GPU-1": 0}, ["gs-1-0"], ContainerFlags(strategies))
    return answer_message(told).SerializeToString(deterministic=True)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    return bytes([number << 3 | 2, len(content)]) + content


def pair(number: int, key: str, value: str) -> bytes:
    """An entry of a map."""
    return field(number, field(1, key.encode()) + field(2, value.encode()))


def variables(visible: str) -> bytes:
    """The contract, in the order of the encoding."""
    return (
        pair(1, "ALIYUN_COM_GPU_MEM_CONTAINER", "2")
        + pair(1, "ALIYUN_COM_GPU_MEM_DEV", "14")
        + pair(1, "ALIYUN_COM_GPU_MEM_IDX", "0")
        + pair(1, "ALIYUN_COM_GPU_MEM_POD", "5")
        + pair(1, "NVIDIA_VISIBLE_DEVICES", visible)
    )


@pytest.mark.promise("DP-019")
def test_dp_019_the_answer_is_the_five_variables_to_the_byte() -> None:
    """The answer is the five variables and nothing else, so that any kubelet since the first reads it alike."""
    assert message("envvar") == variables("GPU-1")


def test_other_ways_are_encoded_by_the_kubelets_numbers() -> None:
    """Mounts are 2 (read-only is 3 in them), annotations 4, devices of the CDI 5."""
    folder = "/var/run/nvidia-container-devices"
    mount = field(1, f"{folder}/GPU-1".encode()) + field(2, b"/dev/null") + b"\x18\x01"

    assert message("volume-mounts") == variables(folder) + field(2, mount)
    assert message("cdi-annotations") == variables("void") + pair(
        4, "cdi.k8s.io/gpushare_gs-1-0", "nvidia.com/gpu=GPU-1"
    )
    assert message("cdi-cri") == variables("void") + field(5, field(1, b"nvidia.com/gpu=GPU-1"))
