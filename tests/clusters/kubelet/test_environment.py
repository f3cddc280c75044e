"""The environment variables of a simulated container."""

from __future__ import annotations

import pytest

from clusters.kubelet.environment import DeviceRequests, environment_of, gpu_lines, requests_of, visible_devices
from clusters.kubelet.pods import containers_of
from clusters.kubelet.proto import deviceplugin_pb2 as pb
from tests.clusters.kubelet.pods_of_tests import container, pod


def merged(env, from_plugins) -> dict[str, str]:
    item = pod("p", container("main", env=env))
    item["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": "1"}
    return environment_of(item, containers_of(item)[0], from_plugins)


def test_the_pods_own_variable_wins_over_the_plugins() -> None:
    """A pod can take the plugin's variable away."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}, {"name": "MINE"}]

    assert merged(env, {"NVIDIA_VISIBLE_DEVICES": "0", "OTHER": "x"}) == {
        "NVIDIA_VISIBLE_DEVICES": "none",
        "OTHER": "x",
        "MINE": "",
    }


def test_fields_of_the_pod_are_known_and_other_sources_left_out() -> None:
    """Names, node and annotations are read; secrets are not."""
    paths = ["metadata.name", "spec.nodeName", "metadata.annotations['ALIYUN_COM_GPU_MEM_IDX']", "status.unknown"]
    env = [{"name": str(n), "valueFrom": {"fieldRef": {"fieldPath": path}}} for n, path in enumerate(paths)]
    env.append({"name": "secret", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})

    assert merged(env, {}) == {"0": "p", "1": "n1", "2": "1"}


def test_gpu_variables_are_sorted_and_others_left_out() -> None:
    """The log of a container shows only what concerns cards."""
    environment = {"PATH": "/", "NVIDIA_VISIBLE_DEVICES": "0", "CGPU_DISABLE": "true", "ALIYUN_COM_GPU_MEM_IDX": "0"}

    assert gpu_lines(environment) == ["ALIYUN_COM_GPU_MEM_IDX=0", "CGPU_DISABLE=true", "NVIDIA_VISIBLE_DEVICES=0"]


FOLDER = "/var/run/nvidia-container-devices"


def answer(cdi=(), annotations=None, mounts=()) -> bytes:
    return pb.ContainerAllocateResponse(
        cdi_devices=[pb.CDIDevice(name=name) for name in cdi],
        annotations=annotations,
        mounts=[pb.Mount(container_path=path, host_path="/dev/null", read_only=True) for path in mounts],
    ).SerializeToString()


def test_answers_of_all_plugins_merge_with_each_device_once() -> None:
    """CDI names come from fields and from annotations."""
    found = requests_of(
        [
            answer(cdi=["nvidia.com/gpu=0"], mounts=["/a"]),
            answer(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0,nvidia.com/gpu=1", "other/y": "z"}),
        ]
    )

    assert found == DeviceRequests(("nvidia.com/gpu=0", "nvidia.com/gpu=1"), ("/a",))
    assert found.lines() == ["CDI device nvidia.com/gpu=0", "CDI device nvidia.com/gpu=1", "mount /a"]


@pytest.mark.parametrize(
    ("variable", "requests", "visible"),
    [
        ("GPU-1", DeviceRequests(), "GPU-1"),
        (None, DeviceRequests(), None),
        ("void", DeviceRequests(cdi=("nvidia.com/gpu=GPU-1", "example.com/nic=0")), "GPU-1"),
        (FOLDER, DeviceRequests(mounts=(f"{FOLDER}/GPU-1", f"{FOLDER}/GPU-2", "/etc/x")), "GPU-1,GPU-2"),
        ("all", DeviceRequests(mounts=(f"{FOLDER}/GPU-1",)), "all"),
    ],
    ids=["variable", "nothing", "cdi", "mounts", "mounts without the folder"],
)
def test_cards_are_visible_as_nvidias_runtime_would_show_them(variable, requests, visible) -> None:
    """The variable, CDI names and mounts decide, in the runtime's order."""
    environment = {} if variable is None else {"NVIDIA_VISIBLE_DEVICES": variable}

    assert visible_devices(environment, requests) == visible
