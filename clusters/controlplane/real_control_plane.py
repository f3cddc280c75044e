"""One real control plane on loopback: etcd, kube-apiserver, and what is asked of kube-controller-manager and kube-scheduler.

Everything lies in one folder: certificates of an authority of its own, the data of etcd, a log per program. All speak TLS;
etcd takes only the API server, the API server only certificates and tokens of this cluster; the controllers listen
nowhere. Authorization is RBAC, and Node for kubelets, as kubeadm has it. The programs die with this process.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from clusters.api import kubeconfig_file
from clusters.api.api_client import ApiClient, ApiError
from clusters.api.certificates import Authority, KeyPair
from clusters.api.connection import Connection
from clusters.api.readiness import says_ready, service_account_token
from clusters.api.resources import SERVICE_ACCOUNTS
from clusters.controlplane.binaries import ETCD, Binaries
from clusters.file_names import file_name
from clusters.processes.program import Program
from clusters.processes.scratch import free_port
from clusters.provider import ClusterError

API_SERVER: Final = "kube-apiserver"
CONTROLLERS: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
_HOST: Final = "127.0.0.1"
# Another program may take a free port before ours listens on it; then another port is tried.
_ATTEMPTS: Final = 3
_TAKEN: Final = "address already in use"
_FLAGS: Final = yaml.safe_load(Path(__file__).with_name("flags.yaml").read_text())
_HOSTS: Final = ("localhost", _HOST, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")


class RealControlPlane:
    """The programs of one control plane, between ``start`` and ``stop``; ``folder`` is there and stays."""

    def __init__(self, binaries: Binaries, folder: Path, environment: Mapping[str, str]) -> None:
        self._binaries = binaries
        self._folder = folder
        # etcd takes flags from there, too, and those of another etcd are not ours.
        self._environment = {name: value for name, value in environment.items() if not name.startswith("ETCD_")}
        self._programs: dict[str, Program] = {}
        self._authority = Authority(folder)
        self._etcd_url = ""
        self.ca = self._authority.ca
        self.url = ""
        self.scheduler_url = ""
        """Where kube-scheduler answers health and metrics."""
        self.kubeconfig = folder / "kubeconfig"
        """An administrator's kubeconfig (group system:masters); it is there once the API server is ready."""

    async def start(self, *, controllers: bool = True) -> None:
        """Start etcd and the API server, and the controllers unless they are turned off. Raises ClusterError."""
        _write_signing_key(self._folder / "service-accounts.key")
        await self._retrying(self._start_etcd)
        await self._retrying(self._start_api_server)
        kubeconfig_file.write(
            self.kubeconfig, self.url, ca=self.ca, client=self.client_certificate("admin", "system:masters")
        )
        if controllers:
            await self._start_controllers()

    async def stop(self) -> None:
        """End every program, the first started last."""
        while self._programs:
            await self._programs.popitem()[1].stop()

    async def restart_api_server(self) -> None:
        """Kill the API server and start it again at its address: its memory of changes is gone, and watches break."""
        program = self._programs[API_SERVER]
        await program.kill()
        await program.launch(self._api_server_is_ready)

    def kubelet_kubeconfig(self, node: str) -> Path:
        """The kubeconfig with which a kubelet is that node to the API server (system:node:<name>)."""
        return self._kubeconfig(f"system:node:{node}", "system:nodes")

    def kubelet_certificate(self, node: str, address: str) -> tuple[Path, Path] | None:
        """Certificate and key with which a kubelet serves its logs to the API server."""
        # By its address: a node's name need be no name of a host.
        pair = self._authority.issue_server(file_name(f"kubelet-{node}", 64), (address,))
        return pair.certificate, pair.key

    async def token_kubeconfig(self, path: Path, namespace: str, account: str, pod: str = "") -> Path:
        """See the protocol. Raises ApiError if there is no such account or pod."""
        async with ApiClient.from_kubeconfig(self.kubeconfig) as api:
            token = await service_account_token(api, namespace, account, pod)
        return kubeconfig_file.write(path, self.url, ca=self.ca, token=token)

    def client_certificate(self, user: str, group: str | None, expires: datetime | None = None) -> KeyPair:
        """A certificate that makes its holder that user of that group to the API server."""
        return self._authority.issue_client(user, group, expires=expires)

    async def start_scheduler(self, configuration: Mapping[str, Any]) -> None:
        """Start kube-scheduler with this KubeSchedulerConfiguration (its account is set here)."""
        account = str(self._kubeconfig("system:kube-scheduler", None))
        mine = {
            **configuration,
            "clientConnection": {**configuration.get("clientConnection", {}), "kubeconfig": account},
            "leaderElection": {"leaderElect": False},
        }
        (self._folder / "scheduler.yaml").write_text(yaml.safe_dump(mine, sort_keys=False))
        server = self._authority.issue_server(SCHEDULER, (_HOST,))
        await self._retrying(lambda: self._start_scheduler(account, server))

    async def stop_scheduler(self) -> None:
        """End kube-scheduler."""
        program = self._programs.pop(SCHEDULER, None)
        if program is not None:
            await program.stop()

    async def scheduler_metrics(self) -> str:
        """The page of kube-scheduler for Prometheus."""
        async with Connection(self.scheduler_url, tls=self._context()) as http:
            return (await http.request("GET", "/metrics")).text

    def log(self, program: str) -> str:
        """The log of one of the programs."""
        path = self._folder / f"{program}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def pid(self, program: str) -> int | None:
        """The process id of one of the programs, while it runs."""
        found = self._programs.get(program)
        return found.pid if found is not None else None

    async def compact(self) -> None:
        """Make etcd drop every version but the newest, as it does every five minutes."""
        async with ApiClient(Connection(self._etcd_url, tls=self._etcd_context())) as etcd:
            status = await etcd.request("POST", "/v3/maintenance/status", body={})
            body = {"revision": status["header"]["revision"], "physical": True}
            await etcd.request("POST", "/v3/kv/compaction", body=body)

    async def _start_etcd(self) -> None:
        pair = self._authority.issue_server("etcd", (_HOST,))
        self._etcd_url = f"https://{_HOST}:{free_port()}"
        self._etcd_client = self.client_certificate("etcd-client", None)
        await self._launch(ETCD, self._etcd_is_ready, **_named(pair))

    async def _start_api_server(self) -> None:
        server = self._authority.issue_server(API_SERVER, _HOSTS)
        kubelets = self.client_certificate("kube-apiserver-kubelet-client", "system:masters")
        port = free_port()
        self.url = f"https://{_HOST}:{port}"
        files = {**_named(server), **_named(kubelets, "kubelets_"), **_named(self._etcd_client, "etcd_")}
        await self._launch(API_SERVER, self._api_server_is_ready, port=port, **files)

    async def _start_controllers(self) -> None:
        account = self._kubeconfig("system:kube-controller-manager", None)
        async with ApiClient.from_kubeconfig(self.kubeconfig) as api:
            await self._launch(CONTROLLERS, lambda: _furnish_namespaces(api), account=account)

    async def _start_scheduler(self, account: str, server: KeyPair) -> None:
        port = free_port()
        self.scheduler_url = f"https://{_HOST}:{port}"
        await self._launch(SCHEDULER, self._scheduler_is_ready, account=account, port=port, **_named(server))

    async def _launch(self, program: str, is_ready: Callable[[], Awaitable[bool]], **words: object) -> None:
        """``words``: what the program's flags have in braces, beside the folder, the authority and etcd's address."""
        words |= {"folder": self._folder, "ca": self.ca, "etcd_url": self._etcd_url}
        flags = (f"--{name}={value}".format_map(words) for name, value in _FLAGS[program].items())
        argv = [str(self._binaries[program]), *flags]
        self._programs[program] = Program(program, argv, self._environment, self._folder / f"{program}.log")
        await self._programs[program].launch(is_ready)

    async def _retrying(self, start: Callable[[], Awaitable[None]]) -> None:
        """Start on another port if the one that was free has been taken in between."""
        for _ in range(_ATTEMPTS - 1):
            try:
                await start()
            except ClusterError as error:
                if _TAKEN not in str(error):
                    raise
            else:
                return
        await start()

    async def _etcd_is_ready(self) -> bool:
        return await says_ready(f"{self._etcd_url}/health", self._etcd_context())

    async def _api_server_is_ready(self) -> bool:
        return await says_ready(f"{self.url}/readyz", self._context())

    async def _scheduler_is_ready(self) -> bool:
        """Its caches are filled; before 1.31 it only reports that it runs."""
        release = [int(part) for part in self._binaries.kubernetes.lstrip("v").split(".")[:2]]
        path = "healthz" if release < [1, 31] else "readyz"
        return await says_ready(f"{self.scheduler_url}/{path}", self._context())

    def _kubeconfig(self, user: str, group: str | None) -> Path:
        path = self._folder / f"{file_name(user.replace(':', '-'))}.kubeconfig"
        return kubeconfig_file.write(path, self.url, ca=self.ca, client=self.client_certificate(user, group))

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def _etcd_context(self) -> ssl.SSLContext:
        context = self._context()
        context.load_cert_chain(self._etcd_client.certificate, self._etcd_client.key)
        return context


def _named(pair: KeyPair, prefix: str = "") -> dict[str, object]:
    return {f"{prefix}certificate": pair.certificate, f"{prefix}key": pair.key}


async def _furnish_namespaces(api: ApiClient) -> bool:
    """Are the controllers at work? They make the ServiceAccount without which no pod is taken."""
    try:
        await api.get(SERVICE_ACCOUNTS, "default", "default")
    except ApiError:
        return False
    return True


def _write_signing_key(path: Path) -> None:
    """The key that signs ServiceAccount tokens; the API server verifies them with the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
