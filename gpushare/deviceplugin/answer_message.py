"""One container's answer as the kubelet's API encodes it."""

from __future__ import annotations

from gpushare.deviceplugin.core.container_answer import ContainerAnswer
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb


def answer_message(answer: ContainerAnswer) -> pb.ContainerAllocateResponse:
    """Mounts are read-only. A kubelet ignores fields that it does not know (``cdi_devices`` before 1.28)."""
    return pb.ContainerAllocateResponse(
        envs=answer.variables,
        mounts=[
            pb.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=True)
            for mount in answer.mounts
        ],
        annotations=answer.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in answer.cdi_devices],
    )
