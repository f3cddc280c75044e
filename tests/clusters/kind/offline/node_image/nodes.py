"""A cluster of the node image: a control plane and two workers, asked from inside their containers."""

from __future__ import annotations

import json
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeVar

T = TypeVar("T")

_SECONDS: Final = 300
# Containers that other clusters may have stopped at the same time, and ours.
_MOST: Final = 30
_POD: Final = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers: [{{name: pause, image: {image}, imagePullPolicy: Never}}]
"""


def until(look: Callable[[], T], good: Callable[[T], bool]) -> T:
    """The value, once it is good. Fails with the last one."""
    deadline = time.monotonic() + _SECONDS
    while not good(seen := look()):
        assert time.monotonic() < deadline, f"after {_SECONDS} s still {seen}"
        time.sleep(0.2)
    return seen


@dataclass(frozen=True)
class Nodes:
    """The containers of one cluster, control plane first; ``environment`` reaches their Docker."""

    containers: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def workers(self) -> tuple[str, ...]:
        """All but the first."""
        return self.containers[1:]

    def docker(self, *arguments: str) -> str:
        """Docker's own verbs."""
        argv = ["docker", *arguments]
        done = subprocess.run(argv, env=dict(self.environment), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout

    def occupy(self, addresses: Set[str]) -> None:
        """Start containers, which take the lowest addresses that are free, until these are taken; they end with the cluster."""
        network = self.environment["KIND_EXPERIMENTAL_DOCKER_NETWORK"]
        image = self.docker("inspect", "--format={{.Image}}", self.containers[0]).strip()
        # kind removes whatever has the cluster's label.
        cluster = self.containers[0].removesuffix("-control-plane")
        argv = [f"--network={network}", f"--label=io.x-k8s.kind.cluster={cluster}", "--entrypoint=sleep", image, "900"]
        show = ("network", "inspect", "--format={{range .Containers}}{{.IPv4Address}} {{end}}", network)
        for _ in range(_MOST):
            if addresses <= {address.partition("/")[0] for address in self.docker(*show).split()}:
                return
            self.docker("run", "--detach", *argv)
        raise AssertionError(f"{_MOST} containers have not taken {addresses}")

    def run(self, container: str, *argv: str, given: bytes = b"") -> bytes:
        """The output of a command in a node. Fails if it does."""
        command = ["docker", "exec", "--interactive", container, *argv]
        done = subprocess.run(command, env=dict(self.environment), input=given, capture_output=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr.decode()}"
        return done.stdout

    def text(self, container: str, script: str) -> str:
        """The output of a script in a node."""
        return self.run(container, "sh", "-c", script).decode().strip()

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """As the cluster's administrator."""
        return self.run(self.containers[0], "kubectl", *arguments, given=given.encode()).decode()

    def objects(self, *arguments: str) -> list[dict[str, Any]]:
        """`kubectl get` of some kind; empty if the API does not answer now."""
        try:
            found: list[dict[str, Any]] = json.loads(self.kubectl("get", *arguments, "--output=json"))["items"]
        except AssertionError:
            return []
        return found

    def until_ready(self, boots: Mapping[str, str] | None = None) -> None:
        """All nodes are, each after another boot than that of before."""
        until(
            lambda: [
                node["metadata"]["name"]
                for node in self.objects("nodes")
                if _is(node, "Ready") and node["status"]["nodeInfo"]["bootID"] not in (boots or {}).values()
            ],
            lambda ready: sorted(ready) == sorted(self.containers),
        )

    def until_names_answer(self) -> None:
        """CoreDNS is ready."""
        until(
            lambda: self.objects("pods", "--namespace=kube-system", "--selector=k8s-app=kube-dns"),
            lambda pods: bool(pods) and all(_is(pod, "Ready") for pod in pods),
        )

    def facts(self, name: str) -> dict[str, str]:
        """Node → its own report: ``bootID``, ``machineID``."""
        return {node["metadata"]["name"]: node["status"]["nodeInfo"][name] for node in self.objects("nodes")}

    def addresses(self) -> dict[str, str]:
        """Node → its address, as the API has it."""
        return {
            node["metadata"]["name"]: next(
                address["address"] for address in node["status"]["addresses"] if address["type"] == "InternalIP"
            )
            for node in self.objects("nodes")
        }

    def start_pod(self, name: str, node: str) -> str:
        """A pod that does nothing, of the image that each node has; its address, once it runs."""
        containerd = self.text(node, "cat /etc/containerd/config.toml")
        image = next(line.split("'")[1] for line in containerd.splitlines() if line.strip().startswith("sandbox ="))
        self.kubectl("apply", "--filename=-", given=_POD.format(name=name, node=node, image=image))

        def look() -> str:
            pods = [pod for pod in self.objects("pods") if pod["metadata"]["name"] == name]
            return pods[0]["status"].get("podIP", "") if pods and _is(pods[0], "Ready") else ""

        return until(look, bool)

    def in_pod(self, node: str, pod: str, argv: Sequence[str], given: bytes = b"") -> bytes:
        """Run a program of the node in the network of a pod."""
        script = f"""for pid in $(pgrep -x pause); do
            nsenter --target $pid --net ip -oneline address show dev eth0 2>/dev/null | grep -qw {pod} && break
        done; exec nsenter --target $pid --net "$@" """
        return self.run(node, "sh", "-c", script, "sh", *argv, given=given)

    def resolve(self, node: str, pod: str, server: str, name: str) -> tuple[int, bytes]:
        """Ask a name server from a pod: the answer's code (RFC 1035, 4.1.1) and its last four bytes, an address if it has one.

        A name server that has just started again may refuse a question, so it is asked again, as resolvers do.
        """
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)

        def ask() -> bytes:
            try:
                return self.in_pod(node, pod, ["socat", "-T5", "-", f"UDP:{server}:53"], question)
            except AssertionError as refusal:
                if "Connection refused" not in str(refusal):
                    raise
                return b""

        answer = until(ask, bool)
        return answer[3] & 15, answer[-4:]


def _is(thing: dict[str, Any], condition: str) -> bool:
    conditions = thing.get("status", {}).get("conditions", [])
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)
