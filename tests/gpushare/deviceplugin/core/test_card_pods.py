"""Promises of gpushare.deviceplugin.core.card_pods."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.deviceplugin.core.card_pods import indices_in_use, indices_of
from gpushare.manifests import Pod


def pod(annotations: dict[str, str], phase: str = "Running") -> Pod:
    spec = {"containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}
    document = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(document, Pod)


@pytest.mark.parametrize(
    ("annotations", "phase", "indices"),
    [
        ({}, "Running", set()),
        ({"ALIYUN_COM_GPU_MEM_IDX": "2"}, "Running", {2}),
        ({"ALIYUN_COM_GPU_MEM_IDX": "2"}, "Succeeded", set()),
        ({"ALIYUN_COM_GPU_MEM_IDX": "two"}, "Running", set()),
        ({"scheduler.framework.gpushare.allocation": '{"0":{"1":2,"3":1}}'}, "Running", {1, 3}),
        ({"scheduler.framework.gpushare.allocation": "{"}, "Running", set()),
    ],
)
def test_a_pod_names_its_cards_until_it_has_ended(annotations: dict[str, str], phase: str, indices: set[int]) -> None:
    """An annotation that cannot be read names none."""
    assert indices_of(pod(annotations, phase)) == indices


def test_an_index_is_in_use_while_one_pod_names_it() -> None:
    """Pods without a card use none."""
    pods = [pod({"ALIYUN_COM_GPU_MEM_IDX": "2"}), pod({}), pod({"ALIYUN_COM_GPU_MEM_IDX": "0"})]

    assert indices_in_use(pods) == {0, 2}
