"""Promises of the manifests' security contexts, by the rules of the Pod Security level "restricted"."""

from __future__ import annotations

from pathlib import Path

import yaml

from clusters.demo import SAMPLES
from gpushare.setup.core.sites import MANIFESTS
from gpushare.setup.journal import FOLDER
from tests.clusters.deploy.reading import Object, only, plugin_of, pod_spec


def findings(spec: Object) -> set[str]:
    """The fields of a pod that the "restricted" Pod Security level would refuse."""
    found = {name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)}
    found |= {"hostPath" for volume in spec.get("volumes", []) if "hostPath" in volume}
    pod = spec.get("securityContext", {})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = {**pod, **container.get("securityContext", {})}
        found |= {"hostPort" for port in container.get("ports", []) if spec.get("hostNetwork") or "hostPort" in port}
        found |= {"privileged"} if own.get("privileged") else set()
        found |= {"allowPrivilegeEscalation"} if own.get("allowPrivilegeEscalation") is not False else set()
        found |= {"capabilities"} if own.get("capabilities") != {"drop": ["ALL"]} else set()
        found |= {"seccompProfile"} if own.get("seccompProfile", {}).get("type") != "RuntimeDefault" else set()
        found |= {"runAsRoot"} if not own.get("runAsNonRoot") or own.get("runAsUser") == 0 else set()
        # That level does not ask for these two; we do.
        found |= {"writableRoot"} if own.get("readOnlyRootFilesystem") is not True else set()
        found |= {"noLimit"} if "memory" not in container.get("resources", {}).get("limits", {}) else set()
    return found


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
