"""Promises of the overlays for sites that base does not fit, and of the files beside them."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from clusters.api.certificates import Authority
from clusters.deploy.render import FOLDER, containers_of, name_of_image
from gpushare import wire
from gpushare.cli.settings import extender_settings
from tests.clusters.deploy.reading import Object, environment, findings, only, pod_spec, rendered

PAGES = FOLDER.parents[1] / "docs" / "install"


def by_name(workload: Object) -> dict[str, Object]:
    return {container["name"]: container for container in containers_of(workload)}


@pytest.mark.parametrize("overlay", ["second-scheduler", "openshift"])
async def test_no_program_beside_the_pod_reaches_the_second_scheduler(kubectl: Path, overlay: str) -> None:
    """Both programs listen on the loopback of a pod that has a network of its own, so no probe comes from outside."""
    deployment = only(await rendered(kubectl, overlay), "Deployment")
    containers = by_name(deployment)
    extender = containers["gpushare-schd-extender"]
    settings = extender_settings(extender["args"], environment(extender))

    assert not pod_spec(deployment).get("hostNetwork")
    assert findings(pod_spec(deployment)) == set()
    assert (settings.address, settings.metrics_address) == ("127.0.0.1", ("127.0.0.1", 12346))
    assert "--bind-address=127.0.0.1" in containers["kube-scheduler"]["args"]
    probes = [probe for one in containers.values() for name, probe in one.items() if name.endswith("Probe")]
    assert [set(probe) & {"exec", "httpGet", "tcpSocket", "grpc"} for probe in probes] == [{"exec"}] * 3


@pytest.mark.parametrize(("extender", "scheduler"), [(200, 200), (503, 200), (200, 500)])
async def test_the_pod_is_ready_if_both_programs_are(
    kubectl: Path, tmp_path: Path, extender: int, scheduler: int
) -> None:
    """The probe asks the extender by HTTP, and kube-scheduler by HTTPS with a certificate of its own making."""
    probe = by_name(only(await rendered(kubectl, "second-scheduler"), "Deployment"))["gpushare-schd-extender"][
        "readinessProbe"
    ]
    pair = Authority(tmp_path).issue_server("scheduler", ("other.example",))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    plain, secure = await answering(extender), await answering(scheduler, tls)
    async with plain, secure:
        ports = {"12345": port_of(plain), "10259": port_of(secure)}
        argv = [sys.executable, *probe["exec"]["command"][1:]]
        for ours, there in ports.items():
            argv = [word.replace(f":{ours}/", f":{there}/") for word in argv]
        process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.DEVNULL)
        code = await process.wait()

    assert (code == 0) is (extender == scheduler == 200)


async def answering(status: int, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """A server that answers each request with this status on /readyz, and 404 elsewhere."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        code = status if asked.startswith(b"GET /readyz ") else 404
        writer.write(f"HTTP/1.1 {code} Said\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def test_old_releases_get_only_what_they_know(kubectl: Path) -> None:
    """Kubernetes 1.17 knows three groups of ours, and neither startup probes nor seccomp fields."""
    objects = await rendered(kubectl, "kubeadm-old")
    old = {"v1", "apps/v1", "rbac.authorization.k8s.io/v1"}
    pods = [item["spec"]["template"] for item in objects if containers_of(item)]

    assert {item["apiVersion"] for item in objects} == old
    assert [word for word in ("startupProbe", "seccompProfile", "ephemeral") if word in str(pods)] == []
    profiles = {str(pod["metadata"]["annotations"]) for pod in pods}
    assert profiles == {"{'seccomp.security.alpha.kubernetes.io/pod': 'runtime/default'}"}


async def test_pages_name_the_images_that_run(kubectl: Path) -> None:
    """kustomize passes over a name that no container has, and the cluster would pull the name in the manifests."""
    blocks = [
        text for page in sorted(PAGES.glob("*.md")) for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S)
    ]
    named = {
        image["name"] for text in blocks for image in (yaml.safe_load(textwrap.dedent(text)) or {}).get("images", ())
    }
    run = {
        name_of_image(one["image"])
        for item in await rendered(kubectl, "second-scheduler")
        for one in containers_of(item)
    }

    assert named == run


async def test_selinux_knows_the_plugin_on_openshift(kubectl: Path) -> None:
    """The type of device plugins; else the pod is base's, in the RuntimeClass of NVIDIA's operator."""
    openshift = pod_spec(only(await rendered(kubectl, "openshift"), "DaemonSet"))
    base = pod_spec(only(await rendered(kubectl, "base"), "DaemonSet"))

    assert openshift["securityContext"].pop("seLinuxOptions") == {"type": "container_device_plugin_t"}
    assert openshift.pop("runtimeClassName") == "nvidia"
    assert openshift == base


def test_jupyterhub_profiles_ask_for_memory_of_one_card() -> None:
    """Each choice is a limit and a request of gpu-mem, and the scheduler of the hub does not get its pods."""
    values = yaml.safe_load((FOLDER / "samples" / "jupyterhub" / "values.yaml").read_text())
    (profile,) = [one for one in values["singleuser"]["profileList"] if "profile_options" in one]
    overrides = [one["kubespawner_override"] for one in profile["profile_options"]["memory"]["choices"].values()]

    assert profile["kubespawner_override"] == {"scheduler_name": "default-scheduler"}
    for override in overrides:
        assert override["extra_resource_limits"] == override["extra_resource_guarantees"]
        assert list(override["extra_resource_limits"]) == [wire.RESOURCE_MEMORY]
    assert (
        len({override["extra_resource_limits"][wire.RESOURCE_MEMORY] for override in overrides}) == len(overrides) > 1
    )
