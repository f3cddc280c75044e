"""The stand-in for the original's plugin answers as the original was recorded to."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import spec
from e2e.go_plugin.go_answers import assigned, candidate, ids_of, variables


def assumed(name: str, *units: int, card: str = "0", time: int = 1, flag: str = "false") -> dict[str, Any]:
    """A pod that the original's extender has bound."""
    written = {spec.POD_INDEX: card, spec.POD_ASSIGNED: flag, spec.POD_ASSUME_TIME: str(time)}
    containers = [{"name": f"c{one}", "resources": {"limits": {spec.RESOURCE_MEMORY: str(one)}}} for one in units]
    return {"metadata": {"name": name, "annotations": written}, "spec": {"containers": containers}}


# Two cards; of the two pods of three units the one that waits longer is listed last.
RECORDED = [assumed("late", 3, card="1", time=9), assumed("early", 3, time=1), assumed("five", 5, card="1", time=5)]


@pytest.mark.parametrize(("units", "name"), [(5, "five"), (3, "early"), (4, None)])
def test_a_pod_is_found_by_amount_and_age(units: int, name: str | None) -> None:
    """Five ids are for the pod of five units, three for the older of two pods, and four for no pod, as it was recorded."""
    found = candidate(RECORDED, units)

    assert (found and found["metadata"]["name"]) == name


def test_an_assigned_pod_matches_no_other_container() -> None:
    """Three ids are for the other pod of three units once the first is assigned, as it was recorded."""
    found = candidate([assumed("early", 3, flag="true"), RECORDED[0]], 3)

    assert found is not None
    assert found["metadata"]["name"] == "late"


def test_a_pod_of_two_containers_is_never_found() -> None:
    """Defect D2: one container's number is compared with the pod's sum."""
    assert candidate([assumed("two", 1, 2)], 1) is None
    assert candidate([assumed("two", 1, 2)], 2) is None


def test_the_variables_are_those_that_were_recorded() -> None:
    """An index, not a UUID; a container without a pod gets a text, and starts."""
    told = variables(RECORDED[2], 5, 15)
    nobodys = variables(None, 4, 15)

    assert told == {
        "ALIYUN_COM_GPU_MEM_CONTAINER": "5",
        "ALIYUN_COM_GPU_MEM_DEV": "15",
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_POD": "5",
        "NVIDIA_VISIBLE_DEVICES": "1",
    }
    assert (nobodys["ALIYUN_COM_GPU_MEM_IDX"], nobodys["NVIDIA_VISIBLE_DEVICES"]) == ("-1", "no-gpu-has-4GiB-to-run")


def test_ids_and_what_is_written() -> None:
    """``<uuid>-_-<n>`` for each card; the flag, and a time of its own."""
    assert ids_of(["GPU-a", "GPU-b"], 2) == ["GPU-a-_-0", "GPU-a-_-1", "GPU-b-_-0", "GPU-b-_-1"]
    assert assigned(2.5) == {spec.POD_ASSIGNED: "true", spec.POD_ASSUME_TIME: "2500000000"}
