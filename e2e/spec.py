"""The contract, restated from the original's sources; the product's own copy is ``gpushare/wire.py``, and neither reads the other.

Each comment has the place in the original: E = gpushare-scheduler-extender c0b6141, D = gpushare-device-plugin 45fb8b8.
"""

from __future__ import annotations

from typing import Final

RESOURCE_MEMORY: Final = (
    "aliyun.com/gpu-mem"  # E pkg/utils/const.go ResourceName; D pkg/gpu/nvidia/const.go resourceName
)
RESOURCE_COUNT: Final = "aliyun.com/gpu-count"  # E CountName; D resourceCount
POD_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"  # E EnvResourceIndex
POD_UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"  # E EnvResourceByPod
POD_DEVICE_UNITS: Final = "ALIYUN_COM_GPU_MEM_DEV"  # E EnvResourceByDev
POD_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"  # E EnvAssignedFlag
POD_ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"  # E EnvResourceAssumeTime
POD_ALLOCATION: Final = "scheduler.framework.gpushare.allocation"  # D const.go; {"container": {"card": units}}
# Ours, beside the original's: the extender that bound the pod, its other card during an exchange, the cards of a node, its slots.
POD_EXTENDER: Final = "ALIYUN_COM_GPU_MEM_EXTENDER"
POD_REPAIR: Final = "ALIYUN_COM_GPU_MEM_REPAIR"
POD_ENDED: Final = "ALIYUN_COM_GPU_MEM_ENDED"
NODE_CARDS: Final = "aliyun.com/gpushare-cards"
NODE_RECOVERED: Final = "gpushare.aliyun.com/recovered"
EVENT_CARD_UNHEALTHY: Final = "GPUShareCardUnhealthy"
EVENT_CARD_RECOVERED: Final = "GPUShareCardRecovered"
EVENT_NO_CARDS: Final = "GPUShareNoCards"
EVENT_ANNOTATIONS_CHANGED: Final = "GPUShareAnnotationsChanged"
EVENT_UNADMITTED: Final = "GPUShareUnadmitted"
EVENT_MEMORY_OVERUSE: Final = "GPUShareMemoryOveruse"
EVENT_MEMORY_OVERUSE_ENDED: Final = "GPUShareMemoryOveruseEnded"
EVENT_OVERUSER_EVICTED: Final = "GPUShareOveruserEvicted"
EVENT_OVERUSER_STAYS: Final = "GPUShareOveruserStays"
# Ours: which limit of card memory the driver enforces for each container, and whether a node's driver does.
POD_LIMITS: Final = "ALIYUN_COM_GPU_MEM_LIMITS"
NODE_LIMITS: Final = "GPUShareMemoryLimits"
EVENT_NOT_LIMITED: Final = "GPUShareNotLimited"
EVENT_LIMIT_LOOSE: Final = "GPUShareLimitLoose"
EVENT_LIMIT_TIGHT: Final = "GPUShareLimitTight"
EVENT_LIMIT_FAILS: Final = "GPUShareLimitFails"
RESOURCE_SLOT: Final = "aliyun.com/gpu-slot"
ENV_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"  # D envNVGPU
ENV_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"  # D EnvResourceIndex
ENV_POD_UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"  # D EnvResourceByPod
ENV_CONTAINER_UNITS: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"  # D EnvResourceByContainer
ENV_DEVICE_UNITS: Final = "ALIYUN_COM_GPU_MEM_DEV"  # D EnvResourceByDev
INSPECT: Final = "/inspect"  # E pkg/routes/routes.go, below /gpushare-scheduler
FILTER: Final = "/filter"
BIND: Final = "/bind"
# Ours, as kube-scheduler's k8s.io/kube-scheduler/extender/v1 has them; explain for people.
PRIORITIZE: Final = "/prioritize"
PREEMPT: Final = "/preempt"
EXPLAIN: Final = "/explain"
# Ours: written on a node with room for a pod that no scheduler asks about; a pod's wishes for its card.
NODE_ROOM: Final = "aliyun.com/gpushare-room"
# Ours: pods that use more of a card than they booked, and the condition of a node's cards, by its device plugin.
NODE_OVERUSE: Final = "aliyun.com/gpushare-overuse"
NODE_HEALTHY: Final = "GPUShareHealthy"
WISH_POLICY: Final = "gpushare.aliyun.com/policy"
WISH_MODEL: Final = "gpushare.aliyun.com/card-model"
WISH_UUID: Final = "gpushare.aliyun.com/card-uuid"
WISH_SAME_CARD: Final = "gpushare.aliyun.com/same-card"
WISH_SPLIT: Final = "gpushare.aliyun.com/split"
REASON_NO_CARD_FITS: Final = "Insufficient GPU Memory in one device"  # E pkg/scheduler/gpushare-predicate.go
MIB_PER_UNIT: Final = 1024  # D main.go: memory-unit GiB is the default
