"""The scale subresource: how many pods, without the rest of the object. Pure."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.refusals import bad_request


def scale_of(item: Object) -> Object:
    """The ``autoscaling/v1`` Scale of a Deployment, ReplicaSet or StatefulSet."""
    metadata = item["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    labels = item["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    status = {"replicas": item.get("status", {}).get("replicas", 0), "selector": selector}
    spec = {"replicas": item["spec"]["replicas"]}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}


def scaled(item: Object, scale: Object) -> Object:
    """The object with the number of pods (and the preconditions) of a Scale. Raises RefusalError (400)."""
    spec, metadata = scale.get("spec") or {}, scale.get("metadata") or {}
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise bad_request("spec and metadata of a Scale are objects")
    replicas: Any = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(f"spec.replicas of a Scale is a whole number, not {replicas!r}")
    wanted = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    return {**item, "metadata": {**item["metadata"], **wanted}, "spec": {**item["spec"], "replicas": replicas}}
