"""The settings of each program, read once from flags and environment into one frozen value. Times are in seconds.

The only module that reads the environment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import wire
from gpushare.cli.flags import Flag, boolean, duration, flag, group, host_port, number, optional, parse, switch
from gpushare.cli.plugin_flags import ContainerFlags, HealthFlags, LimitFlags, UsageFlags
from gpushare.errors import UsageError
from gpushare.model.quantity import MemoryUnit

# Python's names, with those that LOG_LEVEL has in the original.
LOG_LEVELS: Final = {name.lower(): level for name, level in logging.getLevelNamesMapping().items() if level}
# As many processes as NVIDIA's MPS serves on one card; each takes some hundred MiB for its context alone.
DEFAULT_SLOTS: Final = 48
_METRICS: Final = "serve {} on HOST:PORT; :PORT is on loopback, port 0 takes a free one"
_KUBELET: Final = ("kubelet-address", "kubelet-port", "client-cert", "client-key", "token", "timeout")
# The original's flags that ask for nothing here, and why.
IGNORED: Final = (
    Flag("mps", "accepted; it never did anything in the original", "false", boolean),
    Flag("query-kubelet", "accepted; candidates always come from the API server", "false", boolean),
    *(Flag(name, "accepted; the kubelet's HTTP port is not asked", "", str) for name in _KUBELET),
)


def _log_level(text: str) -> int:
    if text.lower() not in LOG_LEVELS:
        raise UsageError(f", not one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[text.lower()]


def _audit_interval(text: str) -> float:
    """0 for never; a short one would keep the API server busy."""
    return 0.0 if duration()(text) == 0 else duration(least=10.0)(text)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths in PEM: of all three files, or of none for plain HTTP."""

    certificate: str = flag("tls-cert-file", "certificate in PEM, with what it is signed by: serve HTTPS")
    key: str = flag("tls-private-key-file", "its key")
    client_ca: str = flag(
        "client-ca-file",
        "authority of the callers' certificates; others are not answered. The three files are read again when they change",
    )

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if len(set(map(bool, (self.certificate, self.key, self.client_ca)))) > 1:
            raise UsageError(
                "--tls-cert-file, --tls-private-key-file and --client-ca-file go together: over TLS only callers with a "
                "certificate of that authority are answered"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings:
    """The flags that both programs have."""

    kubeconfig: str | None = flag(
        "kubeconfig", "kubeconfig", "", optional(str), variable="KUBECONFIG", shown="the pod's service account"
    )
    context: str | None = flag("context", "context of the kubeconfig", "", optional(str), shown="its current one")
    log_level: int = flag("log-level", "debug, info, warn or error", "info", _log_level, variable="LOG_LEVEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings(ProgramSettings):
    """The extender's settings."""

    address: str = flag("address", "address to listen on", "", shown="all, with a warning")
    # The original listens here if PORT is not set.
    port: int = flag("port", "port, 0 for a free one", "39999", number(0, 65535), variable="PORT")
    allowed_hosts: frozenset[str] = flag(
        "allowed-hosts",
        "more names by which callers call this server, with commas between: requests with another name in Host or Origin may "
        "come from a web page",
        "",
        lambda text: frozenset(name.strip().lower() for name in text.split(",") if name.strip()),
        shown="addresses, names without a dot, and those of the cluster",
    )
    guarded: bool = switch(
        "guarded",
        "other extenders may bind on this cluster too: each bind first writes a Lease of its node, which only one can win (two "
        "writes a bind instead of one)",
    )
    tls: TlsFiles = group(TlsFiles)
    metrics_address: tuple[str, int] | None = flag(
        "metrics-address", _METRICS.format("/metrics, /healthz and /readyz, in plain HTTP,"), "", host_port, shown="off"
    )
    policy: str = flag(
        "policy",
        "which card and which node a pod gets that names no policy: binpack fills what is in use, spread uses all evenly, "
        "fragmentation keeps what is free useful to usual requests",
        wire.POLICY_BINPACK,
        choices=wire.POLICIES,
    )
    expected_pods: Path | None = flag(
        "expected-pods",
        "YAML file that lists which pods will come, for fragmentation",
        "",
        optional(Path),
        shown="such as have come; see gpushare/README.md",
    )
    audit_interval: float = flag(
        "audit-interval",
        "how often the book is compared with a fresh list of pods and nodes, and reconciled; 0 for never",
        "5m",
        _audit_interval,
    )
    page: bool = switch(
        "ui",
        "serve the page at /gpushare-scheduler/ui, read-only and to the callers of the other paths; false for no page",
        "true",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePluginSettings(ProgramSettings):
    """The device plugin's settings."""

    node_name: str = flag("node-name", "the Node object of this machine", variable="NODE_NAME")
    memory_unit: MemoryUnit = flag(
        "memory-unit", "of aliyun.com/gpu-mem: GiB, MiB, or a number of MiB such as 256MiB", "GiB", MemoryUnit.parse
    )
    mode: str = flag(
        "mode",
        "ids: one fake device for each unit; slots: exact MiB on cards of any size, and one aliyun.com/gpu-slot for each container",
        "ids",
        choices=("ids", "slots"),
    )
    slots_of_a_card: int | None = flag(
        "slots",
        "in slots mode, how many containers share a card at once",
        "",
        optional(number(1, 1000)),
        shown=str(DEFAULT_SLOTS),
    )
    max_ids: int | None = flag(
        "max-ids",
        "most ids to announce",
        "",
        optional(number(1, 10**6)),
        shown="what this release of the kubelet takes",
    )
    device_plugin_path: str = flag("device-plugin-path", "folder of kubelet.sock", wire.DEVICE_PLUGIN_PATH)
    pod_resources_socket: str = flag(
        "pod-resources-socket", "the kubelet's PodResources socket", wire.POD_RESOURCES_SOCKET
    )
    nvml_library: str | None = flag("nvml-library", "path of an NVML library", "", optional(str), shown="the system's")
    sys_root: str = flag("sys-root", "the host's /sys: which cards the driver has", "/sys")
    repair: str = flag(
        "repair",
        "a pod whose annotation names another card than it has: exchange the annotations of the two pods, or hold its containers "
        "and report it; hold if another extender than ours binds pods too",
        "exchange",
        choices=("exchange", "hold"),
    )
    metrics_address: tuple[str, int] | None = flag(
        "metrics-address", _METRICS.format("/metrics and /healthz"), "", host_port, shown="off"
    )
    usage: UsageFlags = group(UsageFlags)
    limits: LimitFlags = group(LimitFlags)
    delete_unadmitted: bool = switch(
        "delete-unadmitted",
        "delete pods of a controller that failed admission for a reason that has passed, so that it replaces them",
    )
    container: ContainerFlags = group(ContainerFlags)
    health: HealthFlags = group(HealthFlags)

    def __post_init__(self) -> None:
        """The node is named, and slots are counted in slots mode alone. Raises UsageError."""
        if not self.node_name:
            raise UsageError(
                "which node is this? set NODE_NAME (the manifests do, from spec.nodeName) or pass --node-name"
            )
        if self.mode == "ids" and self.slots_of_a_card is not None:
            raise UsageError("--slots means something with --mode slots only")

    @property
    def slots(self) -> int:
        """Slots of each card in slots mode; 0 in ids mode."""
        return (self.slots_of_a_card or DEFAULT_SLOTS) if self.mode == "slots" else 0


def extender_settings(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> ExtenderSettings:
    """Read the extender's flags and environment. Raises UsageError."""
    what = "Scheduler extender: decides which card of a node a pod gets, and binds it."
    env = os.environ if environment is None else environment
    return parse(ExtenderSettings, "gpushare-schd-extender", what, argv, env)


def device_plugin_settings(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> DevicePluginSettings:
    """Read the device plugin's flags and environment. Raises UsageError."""
    what = "Device plugin: announces the memory of a node's cards and hands them out."
    env = os.environ if environment is None else environment
    return parse(DevicePluginSettings, "gpushare-device-plugin", what, argv, env, IGNORED)
