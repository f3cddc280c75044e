"""The generated modules of the kubelet's gRPC interfaces."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from clusters.kubelet.proto import generate

MODULES = ["deviceplugin_pb2", "podresources_pb2", "deviceplugin_pb2_grpc", "podresources_pb2_grpc"]


@pytest.mark.parametrize("name", MODULES)
def test_generated_modules_stand_alone(name) -> None:
    """Absolute imports only, and no message in the pool that other programs' stubs share."""
    module = importlib.import_module(f"clusters.kubelet.proto.{name}")
    source = Path(str(module.__file__)).read_text()

    assert generate.adapted(source) == source
    assert "_descriptor_pool.Default()" not in source


def test_a_generated_text_is_adapted() -> None:
    """Imports are absolute, and the descriptors have a pool of their own."""
    source = "import x_pb2 as x__pb2\nDESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(b'')\n"

    assert generate.adapted(source) == (
        "from clusters.kubelet.proto import x_pb2 as x__pb2\n"
        "DESCRIPTOR = _descriptor_pool.DescriptorPool().AddSerializedFile(b'')\n"
    )


def test_messages_have_the_bytes_that_kubelets_use() -> None:
    """Golden bytes: field numbers and types as in Kubernetes."""
    from clusters.kubelet.proto import deviceplugin_pb2 as d
    from clusters.kubelet.proto import podresources_pb2 as p

    device = d.Device(ID="a", health="Healthy", topology=d.TopologyInfo(nodes=[d.NUMANode(ID=1)]))
    assert device.SerializeToString() == b"\x0a\x01a\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01"
    register = d.RegisterRequest(version="v", endpoint="e", resource_name="r")
    assert register.SerializeToString() == b"\x0a\x01v\x12\x01e\x1a\x01r"
    prefer = d.ContainerPreferredAllocationRequest(
        available_deviceIDs=["a"], must_include_deviceIDs=["b"], allocation_size=2
    )
    assert prefer.SerializeToString() == b"\x0a\x01a\x12\x01b\x18\x02"
    response = d.ContainerAllocateResponse(envs={"A": "1"}, cdi_devices=[d.CDIDevice(name="x")])
    assert response.SerializeToString() == b"\x0a\x06\x0a\x01A\x12\x011\x2a\x03\x0a\x01x"
    shown = p.PodResources(
        name="n",
        namespace="s",
        containers=[p.ContainerResources(name="c", devices=[p.ContainerDevices(resource_name="r", device_ids=["a"])])],
    )
    assert shown.SerializeToString() == b"\x0a\x01n\x12\x01s\x1a\x0b\x0a\x01c\x12\x06\x0a\x01r\x12\x01a"
