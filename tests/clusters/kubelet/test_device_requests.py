from __future__ import annotations

import pytest

from clusters.kubelet.device_requests import DeviceRequests, requests_of, visible_devices
from clusters.kubelet.proto import deviceplugin_pb2 as pb

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
