"""Promises of the manifests in clusters/deploy: they agree with each other and with the programs, and pods have few rights."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters.demo import SAMPLES
from clusters.deploy.render import (
    BASE,
    DEVICE_PLUGIN_IMAGE,
    SIMULATED_IMAGE,
    containers_of,
    name_of_image,
    render,
)
from clusters.embedded.scheduling.fit import accepts_node
from gpushare import __version__, wire
from gpushare.setup.core.sites import MANIFESTS
from gpushare.setup.journal import FOLDER
from tests.clusters.deploy.reading import (
    COMPONENTS,
    HOST_IP,
    OTHER_FORMS,
    SITES,
    Object,
    environment,
    extender_of,
    findings,
    only,
    plugin_of,
    pod_spec,
    rendered,
)

POLICY = "ValidatingAdmissionPolicy"
LABELS = "app.kubernetes.io/"
# The API server makes them, and keeps them as its release needs them.
BOOTSTRAPPED = {"system:kube-scheduler", "system:volume-scheduler"}


def test_names_are_those_of_the_original(objects: list[Object]) -> None:
    """Applied over the original's, they change it instead of standing beside it."""
    found = {(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace")) for item in objects}
    assert {
        ("Deployment", "gpushare-schd-extender", "kube-system"),
        ("DaemonSet", "gpushare-device-plugin-ds", "kube-system"),
        ("ServiceAccount", "gpushare-schd-extender", "kube-system"),
        ("ServiceAccount", "gpushare-device-plugin", "kube-system"),
        ("ClusterRole", "gpushare-schd-extender", None),
        ("ClusterRole", "gpushare-device-plugin", None),
    } <= found
    # Selectors cannot be changed: another one would make the API server refuse the new manifest.
    labels = {"app": "gpushare", "component": "gpushare-schd-extender"}
    assert only(objects, "Deployment")["spec"]["selector"] == {"matchLabels": labels}
    labels = {"app": "gpushare", "component": "gpushare-device-plugin", "name": "gpushare-device-plugin-ds"}
    assert only(objects, "DaemonSet")["spec"]["selector"] == {"matchLabels": labels}
    assert pod_spec(only(objects, "DaemonSet"))["nodeSelector"]["gpushare"] == "true"


@pytest.mark.parametrize(
    "label", [f"node-role.kubernetes.io/{name}" for name in ("control-plane", "master", "controlplane")]
)
@pytest.mark.parametrize("value", ["", "true"])
def test_the_extender_accepts_any_value_of_a_role_label(objects: list[Object], label: str, value: str) -> None:
    """The key alone is agreed: kubeadm leaves the value empty, k3s and RKE2 set "true"."""
    spec = pod_spec(only(objects, "Deployment"))
    labels = {"kubernetes.io/os": "linux", label: value}
    pod = {"metadata": {"name": "p"}, "spec": {key: spec[key] for key in ("nodeSelector", "affinity") if key in spec}}

    assert accepts_node(pod, {"metadata": {"name": "n", "labels": labels}, "spec": {}})
    assert not accepts_node(pod, {"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}}, "spec": {}})


@pytest.mark.parametrize(
    ("key", "effect"),
    [
        ("node-role.kubernetes.io/control-plane", "NoSchedule"),
        ("node-role.kubernetes.io/master", "NoSchedule"),
        ("node-role.kubernetes.io/controlplane", "NoSchedule"),
        ("node-role.kubernetes.io/etcd", "NoExecute"),
        ("CriticalAddonsOnly", "NoExecute"),
    ],
)
def test_the_extender_tolerates_the_taints_of_control_planes(objects: list[Object], key: str, effect: str) -> None:
    """The extender tolerates the taints that kubeadm, RKE, RKE2 and k3s set on control planes."""
    tolerations = pod_spec(only(objects, "Deployment"))["tolerations"]
    found = [one for one in tolerations if one["key"] == key and one["operator"] == "Exists"]

    assert [one.get("effect", effect) for one in found] == [effect]


@pytest.mark.parametrize("site", SITES | OTHER_FORMS)
async def test_everything_that_is_named_is_there(kubectl: Path, site: str) -> None:
    """Selectors find their pods, pods their accounts and ConfigMaps, bindings their roles, mounts their volumes."""
    objects = await rendered(kubectl, site)
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    names |= {("ClusterRole", name) for name in BOOTSTRAPPED}
    for item in objects:
        if item["kind"].endswith("RoleBinding"):
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in names
            assert {("ServiceAccount", subject["name"]) for subject in item["subjects"]} <= names
        if containers_of(item):
            spec = pod_spec(item)
            assert ("ServiceAccount", spec["serviceAccountName"]) in names
            assert (
                item["spec"]["selector"]["matchLabels"].items()
                <= item["spec"]["template"]["metadata"]["labels"].items()
            )
            volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
            assert set(volumes) == {
                mount["name"] for container in containers_of(item) for mount in container.get("volumeMounts", [])
            }
            maps = {one["configMap"]["name"] for one in volumes.values() if "configMap" in one}
            assert {("ConfigMap", name) for name in maps} <= names
        if item["kind"] == "Service":
            assert len(pods_of(item["spec"]["selector"], objects)) == 1
        if item["kind"] == "PodDisruptionBudget":
            assert pods_of(item["spec"]["selector"]["matchLabels"], objects) == [only(objects, "Deployment")]
        if item["kind"] == "ServiceMonitor":
            wanted, (endpoint,) = item["spec"]["selector"]["matchLabels"].items(), item["spec"]["endpoints"]
            services = [one for one in objects if one["kind"] == "Service"]
            ports = [
                port["name"]
                for one in services
                if wanted <= one["metadata"]["labels"].items()
                for port in one["spec"]["ports"]
            ]
            # Without components/metrics there is none.
            assert ports.count(endpoint["port"]) == (1 if services else 0)


def pods_of(selector: Object, objects: list[Object]) -> list[Object]:
    """The workloads of which a selector chooses the pods."""
    return [
        item
        for item in objects
        if containers_of(item) and selector.items() <= item["spec"]["template"]["metadata"]["labels"].items()
    ]


def test_every_object_has_the_common_labels(objects: list[Object]) -> None:
    """Name, component and part-of are on each object and each pod; workloads name the version of the programs and of the images."""
    for item in objects:
        labels = [item["metadata"]["labels"]]
        if containers_of(item):
            labels.append(item["spec"]["template"]["metadata"]["labels"])
            assert {one[f"{LABELS}version"] for one in labels} == {__version__}
        for one in labels:
            assert (one[f"{LABELS}name"], one[f"{LABELS}part-of"]) == ("gpushare", "gpushare")
            assert one[f"{LABELS}component"]
    selectors = [only(objects, kind)["spec"]["selector"]["matchLabels"] for kind in ("Deployment", "DaemonSet")]
    assert not [key for selector in selectors for key in selector if key.startswith(LABELS)]


async def test_an_unedited_apply_pulls_no_image(kubectl: Path) -> None:
    """No name below ``invalid`` resolves (RFC 2606), so the images cannot be those of another project."""
    images = [container["image"] for item in await render(kubectl, BASE) for container in containers_of(item)]

    assert {image.partition("/")[0] for image in images} == {"registry.invalid"}
    assert {image.rpartition(":")[2] for image in images} == {__version__}


def test_the_programs_know_their_flags(objects: list[Object]) -> None:
    """The programs read the manifests' flags: a flag that a program does not know ends the test as it would end the program."""
    extender, extender_says = extender_of(objects)
    plugin, plugin_says = plugin_of(objects)

    is_simulated = name_of_image(plugin["image"]) == SIMULATED_IMAGE
    assert extender["command"] == ["gpushare-extender"]
    assert plugin["command"] == ["gpushare-device-plugin-simulated" if is_simulated else "gpushare-device-plugin"]
    assert extender_says.port == extender["ports"][0]["containerPort"] == 12345
    assert plugin_says.node_name == "n1"
    # In-cluster: the token of the ServiceAccount.
    assert (extender_says.kubeconfig, plugin_says.kubeconfig) == (None, None)


def test_the_plugin_finds_the_kubelet_where_it_is_mounted(objects: list[Object]) -> None:
    """Host path, mount path and the program's own default are one; only the device plugins' folder can be written."""
    plugin, says = plugin_of(objects)
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in pod_spec(only(objects, "DaemonSet"))["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in plugin["volumeMounts"]}

    if "volume-mounts" in says.container.list_strategies:
        # The name of a mount: all cards. NVIDIA's runtime wants this file there.
        assert hosts[mounts.pop("/var/run/nvidia-container-devices/all")["name"]] == "/dev/null"
    if says.limits.is_on:
        cgroups = mounts.pop(says.limits.cgroup_root)
        assert (hosts[cgroups["name"]], cgroups["readOnly"]) == ("/sys/fs/cgroup", True)
    for path, mount in mounts.items():
        assert hosts[mount["name"]] == path
    assert not mounts[says.device_plugin_path].get("readOnly")
    assert mounts[str(Path(says.pod_resources_socket).parent)]["readOnly"] is True


def test_the_extender_is_asked_where_it_listens(objects: list[Object]) -> None:
    """Probes ask loopback if it listens there alone; a Service sends to its port."""
    container, says = extender_of(objects)
    services = [item for item in objects if item["kind"] == "Service" and item["spec"].get("type") == "NodePort"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = container[probe]["httpGet"]
        assert (get["host"], get["port"]) == ("127.0.0.1", "http")
    assert (says.address == "127.0.0.1") is (services == [])
    for service in services:
        (port,) = service["spec"]["ports"]
        assert (port["port"], port["targetPort"], port["nodePort"]) == (12345, "http", 32766)


async def test_the_network_reads_metrics_where_the_component_says(kubectl: Path) -> None:
    """Metrics of both programs are on loopback, or with the component on the node's address, at a port that the pod names.

    The liveness probe of the plugin asks there.
    """
    for components, address in (((), "127.0.0.1"), (("metrics",), HOST_IP)):
        objects = await render(kubectl, BASE, components=components)
        plugin, plugin_says = plugin_of(objects)
        for container, says in (extender_of(objects), (plugin, plugin_says)):
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            assert says.metrics_address == (address, ports["metrics"])
        probe = plugin["livenessProbe"]["httpGet"]
        assert (probe.get("host", HOST_IP), probe["port"], probe["path"]) == (address, "metrics", "/healthz")


async def test_outside_of_kind_nothing_is_simulated(kubectl: Path) -> None:
    """The driver comes by NVIDIA's runtime."""
    plugin, says = plugin_of(await render(kubectl, BASE))

    assert (name_of_image(plugin["image"]), says.nvml_library) == (DEVICE_PLUGIN_IMAGE, None)
    assert environment(plugin)["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "utility" in environment(plugin)["NVIDIA_DRIVER_CAPABILITIES"]
    assert "FAKENVML_STATE" not in environment(plugin)


@pytest.mark.parametrize("component", COMPONENTS)
async def test_a_component_is_a_flag_that_a_program_knows(kubectl: Path, component: str) -> None:
    """Each changes what the program or its pod is, and the base has none of it."""
    spec = pod_spec(only(objects := await render(kubectl, BASE, components=(component,)), "DaemonSet"))
    plugin, says = plugin_of(objects)
    kinds = {item["kind"] for item in objects}
    shown = {
        "slots": says.slots > 0 and "MutatingAdmissionPolicy" in kinds,
        "delete-unadmitted": says.delete_unadmitted,
        "slots-without-policy": says.slots > 0 and "MutatingAdmissionPolicy" not in kinds,
        "metrics": says.metrics_address == (HOST_IP, plugin["ports"][0]["containerPort"]) and "Service" in kinds,
        "monitoring": kinds >= {"ServiceMonitor", "PrometheusRule", "ConfigMap"},
        "on-delete": only(objects, "DaemonSet")["spec"]["updateStrategy"] == {"type": "OnDelete"},
        "usage": says.usage.is_on and spec.get("hostPID") is True,
        "evict-overusers": says.usage.evict and spec.get("hostPID") is True,
        "memory-limit": says.limits.mode == "driver",
        "memory-limit-device": says.limits.hook == ("/usr/bin/nvidia-cdi-hook",),
        "runtime-class": spec.get("runtimeClassName") == "nvidia",
        "runtime-class-object": "RuntimeClass" in kinds,
        "several-extenders": "PodDisruptionBudget" in kinds
        and extender_of(objects)[1].guarded
        and (wire.GUARDS_NAMESPACE, "leases") in rights_in(objects),
        "scheduler-name": "gpushare-scheduler-name" in {item["metadata"]["name"] for item in objects},
        "volume-mounts": says.container.list_strategies == ("volume-mounts",),
        "without-policies": not any(kind.startswith("ValidatingAdmissionPolicy") for kind in kinds),
    }

    assert [name for name, is_shown in shown.items() if is_shown] == [component]


def rights_in(objects: list[Object]) -> set[tuple[str, str]]:
    """Namespace and resource of each right that a Role gives."""
    return {
        (item["metadata"]["namespace"], resource)
        for item in objects
        if item["kind"] == "Role"
        for rule in item["rules"]
        for resource in rule["resources"]
    }


async def test_the_base_gives_no_right_on_leases(kubectl: Path) -> None:
    """Guards are in a namespace of their own, and only several extenders write them; no ClusterRole names Leases."""
    base, several = await render(kubectl, BASE), await render(kubectl, BASE, components=("several-extenders",))
    cluster_wide = {
        resource
        for item in several
        if item["kind"] == "ClusterRole"
        for rule in item["rules"]
        for resource in rule["resources"]
    }

    assert rights_in(several) - rights_in(base) == {(wire.GUARDS_NAMESPACE, "leases")}
    assert "leases" not in {resource for _, resource in rights_in(base)} | cluster_wide
    assert only(several, "Namespace")["metadata"]["name"] == wire.GUARDS_NAMESPACE


async def test_the_policies_name_what_the_programs_write(kubectl: Path) -> None:
    """Each annotation that the programs write on a pod, the accounts of their pods, and each wish of a pod's author."""
    objects = await render(kubectl, BASE)
    policies = {item["metadata"]["name"]: str(item["spec"]) for item in objects if item["kind"] == POLICY}
    written = {
        wire.ANNOTATION_INDEX, wire.ANNOTATION_DEVICE_UNITS, wire.ANNOTATION_POD_UNITS, wire.ANNOTATION_ASSIGNED,
        wire.ANNOTATION_ASSUME_TIME, wire.ANNOTATION_REPAIR, wire.ANNOTATION_EXTENDER, wire.ANNOTATION_ALLOCATION,
    }  # fmt: skip

    assert {one for one in written if f'"{one}"' in policies["gpushare-extender-bindings"]} == written
    by_plugin = written | {wire.ANNOTATION_ENDED}
    assert {one for one in by_plugin if f'"{one}"' in policies["gpushare-device-plugin-pods"]} == by_plugin
    assert all(f'"{one}"' in policies["gpushare-pod-annotations"] for one in wire.WISHES)
    for kind in ("Deployment", "DaemonSet"):
        account = f'"system:serviceaccount:kube-system:{pod_spec(only(objects, kind))["serviceAccountName"]}"'
        assert sum(account in text for text in policies.values()) == 4


async def test_each_policy_denies_and_fails_closed(kubectl: Path) -> None:
    """A policy without a binding does nothing, and one that is ignored when it fails can be made to fail."""
    objects = await render(kubectl, BASE)
    bindings = [item for item in objects if item["kind"] == f"{POLICY}Binding"]
    policies = {item["metadata"]["name"]: item["spec"] for item in objects if item["kind"] == POLICY}

    assert sorted(item["spec"]["policyName"] for item in bindings) == sorted(policies)
    assert {tuple(item["spec"]["validationActions"]) for item in bindings} == {("Deny",)}
    assert {spec["failurePolicy"] for spec in policies.values()} == {"Fail"}


def test_no_two_extenders_are_installed_without_a_common_guard(objects: list[Object]) -> None:
    """Several extenders need the guard, and an update ends an old one before it starts a new one, so that ports never clash."""
    deployment, (_, says) = only(objects, "Deployment")["spec"], extender_of(objects)
    several = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}

    assert (deployment["replicas"] > 1) is says.guarded
    assert deployment["strategy"] == (several if says.guarded else {"type": "Recreate"})


def test_pods_have_no_more_rights_than_they_need(objects: list[Object]) -> None:
    """Both programs have the host's network, and the plugin also has the kubelet's folders."""
    _, says = plugin_of(objects)

    assert findings(pod_spec(only(objects, "Deployment"))) == {"hostNetwork", "hostPort"}
    looks = {"hostPID"} if says.usage.is_needed else set()
    assert (
        findings(pod_spec(only(objects, "DaemonSet"))) == {"hostNetwork", "hostPort", "hostPath", "runAsRoot"} | looks
    )


def test_setup_as_a_pod_has_no_more_rights_than_it_needs() -> None:
    """It is root without capabilities, has no account, and of the node the two folders in which it writes."""
    spec = yaml.safe_load((SAMPLES / "setup" / "job.yaml").read_text())["spec"]["template"]["spec"]

    assert findings(spec) == {"hostNetwork", "hostPID", "hostPath", "runAsRoot"}
    assert spec["automountServiceAccountToken"] is False
    assert {volume["hostPath"]["path"] for volume in spec["volumes"]} == {str(Path(MANIFESTS).parent), FOLDER}
