"""The contract: every name that another program can see.

Kept from the original gpushare (scheduler extender c0b6141, device plugin 45fb8b8) unless the comment says *ours*.
A change here is a change of the wire: it belongs under *Wire* in the CHANGELOG.
"""

from __future__ import annotations

from typing import Final

# Resources of a node and of a container.
RESOURCE_PREFIX: Final = "aliyun.com/gpu-"
RESOURCE_MEMORY: Final = "aliyun.com/gpu-mem"
RESOURCE_COUNT: Final = "aliyun.com/gpu-count"
# Ours: one for each container that asks for memory, on nodes in slots mode; on others it is there and means nothing.
RESOURCE_SLOT: Final = "aliyun.com/gpu-slot"

# Annotations of a pod about its card. The extender writes them with the Binding. The device plugin writes all of them on a pod
# that came without the extender, ..._IDX and ..._DEV in an exchange, and ..._ASSIGNED=true before the first container starts.
ANNOTATION_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
ANNOTATION_DEVICE_UNITS: Final = "ALIYUN_COM_GPU_MEM_DEV"
ANNOTATION_POD_UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"
ANNOTATION_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
ANNOTATION_ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
# Ours: the index of the other card while the plugin changes ..._IDX; until it is gone the pod is booked on both cards.
ANNOTATION_REPAIR: Final = "ALIYUN_COM_GPU_MEM_REPAIR"
# Ours, written with the Binding, or by the plugin on a pod that came without the extender: the binder's book follows ..._IDX,
# so the plugin may change it. The original's book would leak.
ANNOTATION_EXTENDER: Final = "ALIYUN_COM_GPU_MEM_EXTENDER"
# Annotation of a pod that has ended by its phase, while its status still shows running containers: the id of the boot
# that ended them. Written by the device plugin. Ours.
ANNOTATION_ENDED: Final = "ALIYUN_COM_GPU_MEM_ENDED"
EXTENDER_BOOK: Final = "gpushare/1"
# Annotation of a pod, written by a device plugin with --memory-limit: the limit of each container that is in force, as JSON
# (model.limits). Ours.
ANNOTATION_LIMITS: Final = "ALIYUN_COM_GPU_MEM_LIMITS"
# Several cards for one pod, as JSON: for the index of each container, the units on each card, by the card's index.
ANNOTATION_ALLOCATION: Final = "scheduler.framework.gpushare.allocation"

# Annotations of a pod, written by people (ours): what the pod wishes of its card.
PEOPLE_PREFIX: Final = "gpushare.aliyun.com/"
# Which of the cards, and of the nodes, that hold the request: binpack, spread or fragmentation.
WISH_POLICY: Final = PEOPLE_PREFIX + "policy"
# Words of a card's model, and UUIDs, with commas between: wanted, or banned.
WISH_MODEL: Final = PEOPLE_PREFIX + "card-model"
WISH_MODEL_NOT: Final = PEOPLE_PREFIX + "card-model-not"
WISH_UUID: Final = PEOPLE_PREFIX + "card-uuid"
WISH_UUID_NOT: Final = PEOPLE_PREFIX + "card-uuid-not"
# A name; pods of a namespace that say the same one share one card.
WISH_SAME_CARD: Final = PEOPLE_PREFIX + "same-card"
# Units on each of several cards, "8,4"; or a whole card, "whole".
WISH_SPLIT: Final = PEOPLE_PREFIX + "split"
WHOLE_CARD: Final = "whole"
# The wishes by which only some cards will do. A pod that has one stays on the card that was chosen for it.
CARD_WISHES: Final = (WISH_MODEL, WISH_MODEL_NOT, WISH_UUID, WISH_UUID_NOT, WISH_SAME_CARD, WISH_SPLIT)
# All wishes. Any other annotation of a pod below the prefix is refused, because it is most likely a misspelt one.
WISHES: Final = (WISH_POLICY, *CARD_WISHES)
# Fill what is in use, use all evenly, or keep what is free useful to the requests that are usual.
POLICY_BINPACK: Final = "binpack"
POLICY_SPREAD: Final = "spread"
POLICY_FRAGMENTATION: Final = "fragmentation"
POLICIES: Final = (POLICY_BINPACK, POLICY_SPREAD, POLICY_FRAGMENTATION)

# Annotation of a node (ours): each of its cards, as JSON (model.cards.NodeCards).
ANNOTATION_CARDS: Final = "aliyun.com/gpushare-cards"
# Annotation of a node, written by an operator and removed by the device plugin that acted on it: cards, by index or
# UUID and with commas between, that are healthy again. Ours.
ANNOTATION_RECOVERED: Final = "gpushare.aliyun.com/recovered"

# Where the guards of nodes are, a Lease each, and their annotations: pods that are about to be bound there, and the node. Ours.
# The namespace holds nothing else, so that the right to write guards is no right on Leases of others.
GUARDS_NAMESPACE: Final = "gpushare-guards"
ANNOTATION_RESERVATIONS: Final = "aliyun.com/gpushare-reservations"
ANNOTATION_GUARDED_NODE: Final = "aliyun.com/gpushare-node"

# Annotation of a node, written by the extender when it has room for a pod that waits: schedulers look again. Ours.
ANNOTATION_ROOM: Final = "aliyun.com/gpushare-room"

# Annotation of a node, written by the device plugin: pods that use more of a card than they booked, as JSON (model.limits). Ours.
ANNOTATION_OVERUSE: Final = "aliyun.com/gpushare-overuse"
# Condition of a node, written by the device plugin: are all its cards healthy? Ours.
CONDITION_HEALTHY: Final = "GPUShareHealthy"
# Condition of a node, written by a device plugin with --memory-limit: does the driver limit each container to its share? Ours.
CONDITION_LIMITS: Final = "GPUShareMemoryLimits"

# Annotation of kube-scheduler's static pod, written by gpushare-setup: the digest of its file, so that the kubelet restarts it when
# the file is another. Ours.
ANNOTATION_SCHEDULER_FILE: Final = "aliyun.com/gpushare-scheduler-file"

# Reasons of the events that our programs write, on pods and on nodes. Ours; docs/troubleshooting.md explains each.
EVENT_HELD: Final = "GPUShareHeld"
EVENT_NO_CARD: Final = "GPUShareNoCard"
EVENT_ANNOTATIONS_CHANGED: Final = "GPUShareAnnotationsChanged"
EVENT_UNADMITTED: Final = "GPUShareUnadmitted"
EVENT_ENDED_BY_BOOT: Final = "GPUShareEndedByBoot"
EVENT_NOT_BOOKED: Final = "GPUShareNotBooked"
EVENT_IGNORED: Final = "GPUShareIgnored"
EVENT_MEMORY_OVERUSE: Final = "GPUShareMemoryOveruse"
EVENT_MEMORY_OVERUSE_ENDED: Final = "GPUShareMemoryOveruseEnded"
EVENT_OVERUSER_EVICTED: Final = "GPUShareOveruserEvicted"
EVENT_OVERUSER_STAYS: Final = "GPUShareOveruserStays"
EVENT_NOT_LIMITED: Final = "GPUShareNotLimited"
EVENT_LIMIT_LOOSE: Final = "GPUShareLimitLoose"
EVENT_LIMIT_TIGHT: Final = "GPUShareLimitTight"
EVENT_LIMIT_FAILS: Final = "GPUShareLimitFails"
EVENT_CARD_NOT_BOOKED: Final = "GPUShareCardNotBooked"
EVENT_CARD_UNHEALTHY: Final = "GPUShareCardUnhealthy"
EVENT_CARD_RECOVERED: Final = "GPUShareCardRecovered"
EVENT_CARD_NOT_SHARED: Final = "GPUShareCardNotShared"
EVENT_CARD_UNREADABLE: Final = "GPUShareCardUnreadable"
EVENT_NO_CARDS: Final = "GPUShareNoCards"
EVENT_RESOURCE_OWNED: Final = "GPUShareResourceOwned"
EVENT_UNIT_IN_USE: Final = "GPUShareUnitInUse"

# Variables of a container, set by the device plugin.
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
ENV_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
ENV_POD_UNITS: Final = "ALIYUN_COM_GPU_MEM_POD"
ENV_CONTAINER_UNITS: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
ENV_DEVICE_UNITS: Final = "ALIYUN_COM_GPU_MEM_DEV"
ENV_ISOLATION_OFF: Final = "CGPU_DISABLE"
# Read by NVIDIA's hook apply-cuda-memory-limits, which has the driver limit the container's control group; in MiB. Ours.
ENV_MEMORY_LIMIT: Final = "NVIDIA_GPU_MEMORY_LIMIT"
ENV_MEMORY_REQUEST: Final = "NVIDIA_GPU_MEMORY_REQUEST"
# Devices of the CDI that a device plugin with --memory-limit-hook writes: each is a limit on one card, ``GPU-…-2048`` in MiB. Ours.
CDI_LIMIT_KIND: Final = "gpushare.aliyun.com/limit"

# Labels of a node.
LABEL_ISOLATION_OFF: Final = "cgpu.disable.isolation"

# HTTP paths of the extender.
PATH_PREFIX: Final = "/gpushare-scheduler"
PATH_FILTER: Final = PATH_PREFIX + "/filter"
PATH_PRIORITIZE: Final = PATH_PREFIX + "/prioritize"
PATH_PREEMPT: Final = PATH_PREFIX + "/preempt"
PATH_BIND: Final = PATH_PREFIX + "/bind"
PATH_INSPECT: Final = PATH_PREFIX + "/inspect"
PATH_VERSION: Final = "/version"
# Ours: /NAMESPACE/POD explains why a pod has no card; a manifest posted here is explained without effect.
PATH_EXPLAIN: Final = PATH_PREFIX + "/explain"
# Ours: the page for people, what it shows as JSON, and the changes of that as server-sent events.
PATH_PAGE: Final = PATH_PREFIX + "/ui"
PATH_PAGE_STATE: Final = PATH_PAGE + "/state"
PATH_PAGE_EVENTS: Final = PATH_PAGE + "/events"
# The answer of /version: the original's constant, which monitoring compares.
API_VERSION: Final = "0.1.0"

# ConfigMap that lists the unhealthy cards of a node (data.gpus = "0,2"): how its name begins, before the node's, and its namespace.
UNHEALTHY_CONFIGMAP_PREFIX: Final = "unhealthy-gpu-"
UNHEALTHY_CONFIGMAP_NAMESPACE: Final = "kube-system"
# The extender's Service in the manifests, as callers in other namespaces name it.
EXTENDER_SERVICE: Final = "gpushare-schd-extender.kube-system"

# The device plugin's socket beside kubelet.sock, and the only API version that a kubelet accepts.
PLUGIN_SOCKET: Final = "aliyungpushare.sock"
# Ours: the socket of gpu-slot, beside it.
SLOT_SOCKET: Final = "aliyungpushare-slot.sock"
KUBELET_SOCKET: Final = "kubelet.sock"
DEVICE_PLUGIN_VERSION: Final = "v1beta1"
# The folder is a constant of the kubelet: a moved --root-dir does not move it.
DEVICE_PLUGIN_PATH: Final = "/var/lib/kubelet/device-plugins"
POD_RESOURCES_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
# The most that a kubelet takes in one gRPC message, in bytes (grpc-go's default; the kubelet sets no other).
KUBELET_MESSAGE_LIMIT: Final = 4 * 1024 * 1024

# Reasons that the scheduler shows in an event. Constant and without node names, so that it can count them.
REASON_NO_CARD_FITS: Final = "Insufficient GPU Memory in one device"
REASON_NOT_A_GPU_NODE: Final = "node is not for GPU share"
REASON_NO_CARD_LARGE_ENOUGH: Final = "no GPU of the node is large enough"
REASON_ALL_CARDS_UNHEALTHY: Final = "all GPUs of the node are unhealthy"
# On nodes in slots mode.
REASON_NO_SLOT: Final = "no free slot on the GPUs that have the memory"
REASON_TOO_MANY_CONTAINERS: Final = "no GPU of the node has a slot for each container"
REASON_SLOT_MISSING: Final = (
    "a container asks for aliyun.com/gpu-mem without exactly one aliyun.com/gpu-slot, or for a slot alone"
)
REASON_UNKNOWN_NODE: Final = "node is not known to the extender"
# The node runs a later device plugin than this extender knows: update the extender, or roll the plugin back.
REASON_NEWER_CARDS: Final = "the node's GPUs are described by a newer version of gpushare"
REASON_UNREADABLE_POD: Final = "a pod on the node cannot be read, so it is not known which GPUs have room"
# To pods that wish for a card.
REASON_NO_SUCH_CARD: Final = "no GPU of the node is one that the pod wishes for"
REASON_CARDS_UNSAID: Final = "the node does not say what its GPUs are, and the pod wishes for some"
REASON_OTHER_CARD: Final = "the pods that this one shares a GPU with are on another"
REASON_NO_WHOLE_CARD: Final = "no GPU of the node has exactly what the pod asks for, to be its alone"
REASON_TOO_FEW_CARDS: Final = "the node has too few GPUs that are large enough for the split"
REASON_NO_CARDS_FOR_SPLIT: Final = "Insufficient GPU Memory on several devices for the split"
REASON_ONE_CARD_A_CONTAINER: Final = "the node's device plugin gives a container one GPU"
