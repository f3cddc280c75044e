"""Flags and environment of each program, read once into one frozen value. Explicit beats implicit: a flag wins.

The only module that reads the environment. Flags are accepted as Go programs take them, because the original's
manifests pass them so: ``-x v``, ``--x=v``, bare booleans, and glog's own flags, which are read and ignored.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import __version__, wire
from gpushare.errors import InvalidQuantityError, UsageError
from gpushare.health_flags import HealthFlags, add_health_flags, read_health_flags
from gpushare.metrics_flags import add_metrics_flag, read_metrics_flag
from gpushare.model.quantity import MemoryUnit
from gpushare.plugin_flags import PluginFlags, add_flags, duration, read_flags

# LOG_LEVEL of the original, and Python's own names.
LOG_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}
# glog's flags, which manifests of Go programs carry.
_GLOG_SWITCHES: Final = ("logtostderr", "alsologtostderr")
_GLOG_VALUES: Final = ("v", "vmodule", "stderrthreshold", "log_dir", "log_backtrace_at")
# The original listens here if PORT is not set.
DEFAULT_EXTENDER_PORT: Final = 39999
# As many processes as NVIDIA's MPS serves on one card; each takes some hundred MiB for its context alone.
DEFAULT_SLOTS: Final = 48
_TRUE: Final = ("true", "1", "t", "yes")
_FALSE: Final = ("false", "0", "f", "no")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths in PEM: the certificate with what it is signed by, its key, the authority of the callers' certificates."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The extender's settings."""

    address: str
    """Where to listen. All addresses where nothing is said, as the original's manifests need (with a warning)."""
    port: int
    """TCP port; 0 takes a free one and logs it."""
    tls: TlsFiles | None
    """Its certificates, or None for plain HTTP."""
    guarded: bool
    """Whether other extenders may bind on this cluster, so that a bind must first win its node's guard."""
    metrics_address: tuple[str, int] | None
    """Where /metrics is served, host and port, always plain HTTP; None for nowhere."""
    policy: str
    """Of pods that name none: one of ``wire.POLICIES``."""
    expected_pods: Path | None
    """A file that says which pods will come; None: those that were seen will."""
    audit_interval: float
    """Seconds between two comparisons of the book with the API; 0 for none."""
    kubeconfig: str | None
    """A kubeconfig, or None for in-cluster."""
    context: str | None
    """The kubeconfig's context, or None for its current one."""
    log_level: int
    """A level of the logging module."""


@dataclass(frozen=True, slots=True)
class DevicePluginSettings:
    """The device plugin's settings."""

    node_name: str
    """The Node object that is ours."""
    kubeconfig: str | None
    """A kubeconfig, or None for in-cluster."""
    context: str | None
    """The kubeconfig's context, or None for its current one."""
    memory_unit: MemoryUnit
    """What one unit of gpu-mem is."""
    slots: int
    """Slots of each card in slots mode; 0 in ids mode."""
    max_ids: int | None
    """The most ids to announce; None takes the kubelet's own limits."""
    device_plugin_path: str
    """The folder of kubelet.sock."""
    pod_resources_socket: str
    """Where the kubelet says which container has which ids."""
    nvml_library: str | None
    """An NVML library, or None for the system's."""
    sys_root: str
    """The host's /sys."""
    repairs: bool
    """Whether annotations that name another card than their pod has are put right, or only reported."""
    extra: PluginFlags
    """What it observes and reports, and what a container gets."""
    health: HealthFlags
    """When a card is sick, and when it is well."""
    log_level: int
    """A level of the logging module."""


def extender_settings(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> ExtenderSettings:
    """Read the extender's flags and environment (PORT, LOG_LEVEL, KUBECONFIG). Raises UsageError."""
    env = os.environ if environment is None else environment
    parser = _parser(
        "gpushare-schd-extender", "Scheduler extender: decides which card of a node a pod gets, and binds it."
    )
    _flag(parser, "address", default="", help="address to listen on (default: all, with a warning)")
    _flag(
        parser,
        "port",
        default=env.get("PORT", str(DEFAULT_EXTENDER_PORT)),
        help="port, 0 for a free one (default: $PORT or %(default)s)",
    )
    _switch(
        parser,
        "guarded",
        "other extenders may bind on this cluster too: each bind first writes a Lease of its node in kube-system, which only one "
        "can win (two writes a bind instead of one; default: false)",
    )
    _flag(parser, "tls-cert-file", default="", help="certificate in PEM, with what it is signed by: serve HTTPS")
    _flag(parser, "tls-private-key-file", default="", help="its key")
    _flag(
        parser,
        "client-ca-file",
        default="",
        help="authority of the callers' certificates; others are not answered. The three files are read again when they change",
    )
    add_metrics_flag(parser, _flag, "/metrics, /healthz and /readyz, in plain HTTP,")
    _flag(
        parser,
        "policy",
        default=wire.POLICY_BINPACK,
        choices=wire.POLICIES,
        help="which card and which node a pod gets that names no policy: binpack fills what is in use, spread uses all evenly, "
        "fragmentation keeps what is free useful to usual requests (default: binpack)",
    )
    _flag(
        parser,
        "expected-pods",
        default="",
        metavar="FILE",
        help="YAML that says which pods will come, for fragmentation (default: such as have come; see gpushare/README.md)",
    )
    _flag(
        parser,
        "audit-interval",
        default="5m",
        help="how often the book is compared with a fresh list of pods and nodes, and put right; 0 for never (default: 5m)",
    )
    _connection_flags(parser, env)
    parsed = _parse(parser, argv)
    return ExtenderSettings(
        address=parsed.address,
        port=_number(parsed.port, "port", 0, 65535),
        tls=_tls(parsed),
        guarded=parsed.guarded,
        metrics_address=read_metrics_flag(parsed),
        policy=parsed.policy,
        expected_pods=Path(parsed.expected_pods) if parsed.expected_pods else None,
        audit_interval=_audit_interval(parsed.audit_interval),
        kubeconfig=parsed.kubeconfig or None,
        context=parsed.context or None,
        log_level=_log_level(parsed.log_level),
    )


def _audit_interval(text: str) -> float:
    """Seconds, 0 for never. Raises UsageError, also for an interval that would keep the API server busy."""
    return 0.0 if duration(text, "audit-interval") == 0 else duration(text, "audit-interval", least=10.0)


def _tls(parsed: argparse.Namespace) -> TlsFiles | None:
    """All three files or none. Raises UsageError."""
    given = [parsed.tls_cert_file, parsed.tls_private_key_file, parsed.client_ca_file]
    if not any(given):
        return None
    if not all(given):
        raise UsageError(
            "--tls-cert-file, --tls-private-key-file and --client-ca-file go together: over TLS only callers with a certificate of "
            "that authority are answered"
        )
    return TlsFiles(*map(Path, given))


def device_plugin_settings(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> DevicePluginSettings:
    """Read the device plugin's flags and environment (NODE_NAME, LOG_LEVEL, KUBECONFIG). Raises UsageError."""
    env = os.environ if environment is None else environment
    parser = _parser(
        "gpushare-device-plugin", "Device plugin: announces the memory of a node's cards and hands them out."
    )
    _flag(
        parser,
        "node-name",
        default=env.get("NODE_NAME", ""),
        help="the Node object of this machine (default: $NODE_NAME)",
    )
    _flag(parser, "memory-unit", default="GiB", help="GiB, MiB, or a number of MiB such as 256MiB (default: GiB)")
    _flag(
        parser,
        "mode",
        default="ids",
        choices=("ids", "slots"),
        help="ids: one fake device for each unit; slots: exact MiB on cards of any size, and one aliyun.com/gpu-slot for "
        "each container (default: ids)",
    )
    _flag(
        parser,
        "slots",
        default="",
        help=f"in slots mode, how many containers share a card at once (default: {DEFAULT_SLOTS})",
    )
    _flag(
        parser,
        "max-ids",
        default="",
        help="most ids to announce (default: what this release of the kubelet takes)",
    )
    _flag(
        parser,
        "device-plugin-path",
        default=wire.DEVICE_PLUGIN_PATH,
        help="folder of kubelet.sock (default: %(default)s)",
    )
    _flag(
        parser,
        "pod-resources-socket",
        default=wire.POD_RESOURCES_SOCKET,
        help="the kubelet's PodResources socket (default: %(default)s)",
    )
    _flag(parser, "nvml-library", default="", help="path of an NVML library (default: the system's)")
    _flag(
        parser,
        "sys-root",
        default="/sys",
        help="the host's /sys: which cards the driver has, and their NUMA nodes (default: /sys)",
    )
    _flag(
        parser,
        "repair",
        default="exchange",
        choices=("exchange", "hold"),
        help="a pod whose annotation names another card than it has: exchange the annotations of the two pods, or hold "
        "its containers and say so; hold where another extender than ours binds pods too (default: exchange)",
    )
    add_flags(parser, _flag, _switch)
    add_health_flags(parser, _flag, _switch)
    _ignored_flags(parser)
    _connection_flags(parser, env)
    parsed = _parse(parser, argv)
    if not parsed.node_name:
        raise UsageError("which node is this? set NODE_NAME (the manifests do, from spec.nodeName) or pass --node-name")
    try:
        unit = MemoryUnit.parse(parsed.memory_unit)
    except InvalidQuantityError as error:
        raise UsageError(f"--memory-unit: {error}") from error
    return DevicePluginSettings(
        node_name=parsed.node_name,
        kubeconfig=parsed.kubeconfig or None,
        context=parsed.context or None,
        memory_unit=unit,
        slots=_slots(parsed.mode, parsed.slots),
        max_ids=_number(parsed.max_ids, "max-ids", 1, 10**6) if parsed.max_ids else None,
        device_plugin_path=parsed.device_plugin_path,
        pod_resources_socket=parsed.pod_resources_socket,
        nvml_library=parsed.nvml_library or None,
        sys_root=parsed.sys_root,
        repairs=parsed.repair == "exchange",
        extra=read_flags(parsed),
        health=read_health_flags(parsed, env),
        log_level=_log_level(parsed.log_level),
    )


def _slots(mode: str, slots: str) -> int:
    """Slots of a card; 0 in ids mode. Raises UsageError for slots in a mode that does not count them."""
    if mode == "ids" and slots:
        raise UsageError("--slots means something with --mode slots only")
    return _number(slots, "slots", 1, 1000) if slots else DEFAULT_SLOTS if mode == "slots" else 0


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _flag(parser: argparse.ArgumentParser, name: str, **options: object) -> None:
    """A flag in both of Go's spellings; help shows the long one."""
    parser.add_argument(f"--{name}", f"-{name}", **options)  # type: ignore[arg-type]


def _switch(parser: argparse.ArgumentParser, name: str, help: str) -> None:  # noqa: A002  # argparse's own word
    """A boolean as Go takes it: ``--x``, ``--x=true``, ``-x=false``."""
    _flag(parser, name, nargs="?", const="true", default="false", type=_boolean, metavar="BOOL", help=help)


def _ignored_flags(parser: argparse.ArgumentParser) -> None:
    """The original's flags that ask for nothing here, and why."""
    _switch(parser, "mps", "accepted; it never did anything in the original")
    _switch(parser, "query-kubelet", "accepted; candidates always come from the API server")
    for name in ("kubelet-address", "kubelet-port", "client-cert", "client-key", "token", "timeout"):
        _flag(parser, name, default="", help="accepted; the kubelet's HTTP port is not asked")


def _connection_flags(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    _flag(
        parser,
        "kubeconfig",
        default=env.get("KUBECONFIG", ""),
        help="kubeconfig (default: $KUBECONFIG, else in-cluster)",
    )
    _flag(parser, "context", default="", help="context of the kubeconfig (default: its current one)")
    _flag(
        parser,
        "log-level",
        default=env.get("LOG_LEVEL", "info"),
        help="debug, info, warn or error (default: $LOG_LEVEL or info)",
    )
    for name in _GLOG_SWITCHES:
        _flag(parser, name, nargs="?", const="true", default="", help=argparse.SUPPRESS)
    for name in _GLOG_VALUES:
        _flag(parser, name, default="", help=argparse.SUPPRESS)


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """argparse exits 2 with the usage on a flag that it does not know; so do our programs."""
    return parser.parse_args(argv)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _number(text: str, flag: str, lowest: int, highest: int) -> int:
    if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
        raise UsageError(f"--{flag} is {text!r}, not a number from {lowest} to {highest}")
    return int(text)


def _log_level(text: str) -> int:
    level = LOG_LEVELS.get(text.lower())
    if level is None:
        raise UsageError(f"log level {text!r} is not known (expected {', '.join(LOG_LEVELS)})")
    return level
