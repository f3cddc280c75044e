"""Promises of the Helm chart: it renders what kustomize renders for the same choice, and refuses choices that make no cluster."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.deploy import chart_templates
from clusters.deploy.chart_templates import OVERLAYS, TEMPLATES, parts, value_of
from clusters.deploy.render import BASE, DEVICE_PLUGIN_IMAGE, EXTENDER_IMAGE, OVERLAY_NODEPORT, render
from clusters.processes.commands import output_of
from clusters.provider import ClusterError
from tests.clusters.deploy.reading import COMPONENTS, OTHER_FORMS, Object

CHART = TEMPLATES.parent
NODEPORT = "nodeport"
FACTORS = (NODEPORT, *(name for name in COMPONENTS if name != "scheduler-name"))
SCHEDULER_IMAGE = "registry.k8s.io/kube-scheduler"
# They exclude each other.
SLOTS = {"slots", "slots-without-policy"}
_MANY = pytest.mark.thorough("helm and kustomize render twenty choices")
# Kubernetes by its minor, as helm is given it.
NEWEST = "1.36.0"


async def rendered(
    helm: Path, values: Mapping[str, Any], *, kubernetes: str = NEWEST, namespace: str = "kube-system"
) -> list[Object]:
    """The objects of the chart with these values."""
    options = ["--namespace", namespace, "--kube-version", kubernetes, "--set-json", json.dumps(values)]
    text = await output_of([str(helm), "template", "gpushare", str(CHART), *options], dict(os.environ))
    return in_order([item for item in yaml.safe_load_all(text) if item])


def in_order(objects: list[Object]) -> list[Object]:
    """Sorted by kind and name: the two programs order by rules of their own."""
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))


def values_of(chosen: set[str]) -> dict[str, dict[str, bool]]:
    components = {value_of(name): True for name in sorted(chosen - set(OVERLAYS))}
    return {"components": components, "overlays": {value_of(name): name in chosen for name in OVERLAYS}}


@_MANY
@pytest.mark.parametrize("form", OTHER_FORMS)
async def test_each_form_is_what_kustomize_makes_of_it(helm: Path, kustomize: Path, form: str) -> None:
    """Those that include another form or a component switch it on; kube-scheduler's version is left to the chart."""
    folder, components = OTHER_FORMS[form]
    chosen = {folder.name, *components}
    charted, kustomized = await asyncio.gather(
        rendered(helm, values_of(chosen), kubernetes="v1.36.2-eks-4096722"),
        render(kustomize, folder, images={SCHEDULER_IMAGE: f"{SCHEDULER_IMAGE}:v1.36.2"}, components=components)
        if any(name in chosen for name in ("second-scheduler", "openshift"))
        else render(kustomize, folder, components=components),
    )

    assert charted == in_order(kustomized)


def choices() -> Iterator[set[str]]:
    """Each factor alone, and few choices of many that have each two factors together, one without the other, and neither."""
    for factor in FACTORS:
        yield {factor, "metrics"} if factor == "monitoring" else {factor}
    # Columns of four ones in six rows: each two of them differ in both ways and meet in at least two rows.
    columns = dict(zip(FACTORS, combinations(range(6), 4), strict=False))
    for row in range(6):
        chosen = {factor for factor, rows in columns.items() if row in rows}
        if "monitoring" in chosen:
            chosen.add("metrics")
        yield from (chosen - {one} for one in sorted(SLOTS)) if chosen >= SLOTS else (chosen,)


CHOICES = list(choices())


async def both(helm: Path, kustomize: Path, chosen: set[str]) -> tuple[list[Object], list[Object]]:
    """The objects of helm, and those of kustomize."""
    # In the order of the chart: components append to one list of arguments.
    components = tuple(name for name in COMPONENTS if name in chosen)
    folder = OVERLAY_NODEPORT if NODEPORT in chosen else BASE
    charted, kustomized = await asyncio.gather(
        rendered(helm, values_of(chosen)), render(kustomize, folder, components=components)
    )
    return charted, in_order(kustomized)


async def test_the_default_is_the_base(helm: Path, kustomize: Path) -> None:
    """Without any value."""
    charted, kustomized = await both(helm, kustomize, set())

    assert charted == kustomized


@_MANY
@pytest.mark.parametrize("chosen", CHOICES, ids=["+".join(sorted(one)) for one in CHOICES])
async def test_each_choice_is_what_kustomize_makes_of_it(helm: Path, kustomize: Path, chosen: set[str]) -> None:
    """Object by object, field by field."""
    charted, kustomized = await both(helm, kustomize, chosen)

    assert charted == kustomized


@_MANY
async def test_the_values_of_a_site_are_patches_of_kustomize(helm: Path, kustomize: Path, tmp_path: Path) -> None:
    """Images, arguments, node selectors, resources, pull secrets, replicas and labels of monitors."""
    digest = f"sha256:{'0123' * 16}"
    values = {
        "components": {"severalExtenders": True, "metrics": True, "monitoring": True},
        "extender": {
            "image": {"repository": "r.example:5000/e", "tag": "1.2", "pullPolicy": "Always"},
            "args": ["--policy=spread"],
            "replicas": 5,
            "nodeSelector": {"pool": "control"},
            "resources": {"limits": {"memory": "2Gi"}},
        },
        "devicePlugin": {
            "image": {"repository": "r.example:5000/d", "tag": "1.2", "digest": digest},
            "args": ["--memory-unit=MiB", "--cool-down=5m"],
            "nodeSelector": {"pool": "cards", "gpushare": "yes"},
        },
        "imagePullSecrets": [{"name": "pull"}],
        "monitoring": {"labels": {"release": "prometheus"}},
    }
    secrets = {"imagePullSecrets": [{"name": "pull"}]}
    extender = {"imagePullPolicy": "Always", "resources": {"limits": {"memory": "2Gi"}}}
    components = [BASE.parent / "components" / name for name in ("metrics", "monitoring", "several-extenders")]
    site = {
        "resources": [relative(BASE, tmp_path)],
        "components": [relative(path, tmp_path) for path in components],
        "images": [
            {"name": EXTENDER_IMAGE, "newName": "r.example:5000/e", "newTag": "1.2"},
            {"name": DEVICE_PLUGIN_IMAGE, "newName": "r.example:5000/d", "digest": digest},
        ],
        "replicas": [{"name": "gpushare-schd-extender", "count": 5}],
        "patches": [
            merging("Deployment", "gpushare-schd-extender", extender, nodeSelector={"pool": "control"}, **secrets),
            merging("DaemonSet", "gpushare", {}, nodeSelector={"pool": "cards", "gpushare": "yes"}, **secrets),
            adding("Deployment", f"{_CONTAINER}/args/-", "--policy=spread"),
            adding("DaemonSet", f"{_CONTAINER}/args/-", "--memory-unit=MiB", "--cool-down=5m"),
            adding("ServiceMonitor", "/metadata/labels/release", "prometheus"),
            adding("PrometheusRule", "/metadata/labels/release", "prometheus"),
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(site))

    assert await rendered(helm, values) == in_order(await render(kustomize, tmp_path))


_CONTAINER = "/spec/template/spec/containers/0"


def merging(kind: str, container: str, fields: Object, **of_pods: Any) -> Object:
    """A patch of kustomize that merges fields into the one container, and into the pods."""
    spec = {"template": {"spec": {"containers": [{"name": container, **fields}], **of_pods}}}
    patch = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "each"}, "spec": spec}
    return {"target": {"kind": kind}, "patch": yaml.safe_dump(patch)}


def adding(kind: str, path: str, *values: str) -> Object:
    """A patch of kustomize that adds values at a place."""
    patch = [{"op": "add", "path": path, "value": value} for value in values]
    return {"target": {"kind": kind}, "patch": yaml.safe_dump(patch)}


def relative(path: Path, start: Path) -> str:
    return os.path.relpath(path.resolve(), start.resolve())


@_MANY
@pytest.mark.parametrize(
    ("values", "kubernetes", "message"),
    [
        ({}, "1.29.9", "components.withoutPolicies=true"),
        (values_of({"slots"}), "1.35.0", "components.slotsWithoutPolicy=true"),
        (values_of(SLOTS), NEWEST, "exclude each other"),
        (values_of({"monitoring"}), NEWEST, "components.metrics=true"),
        (values_of({"nodeport", "single-node"}), NEWEST, "choose one of nodeport, singleNode"),
        (values_of({"scheduler-name"}), NEWEST, "overlays.secondScheduler=true"),
        (values_of({"scheduler-name", "second-scheduler"}), "1.35.0", "schedulerName: gpushare-scheduler"),
        ({"components": {"metrisc": True}}, NEWEST, "metrisc"),
        ({"extender": {"image": {"pullPolicy": "Sometimes"}}}, NEWEST, "pullPolicy"),
        ({"extender": {"args": ["guarded"]}}, NEWEST, "args"),
        # The probes would ask another address than the program has.
        ({"extender": {"args": ["--address=0.0.0.0"]}}, NEWEST, "args"),
        ({"devicePlugin": {"args": ["-metrics-address", ":1"]}}, NEWEST, "args"),
        ({"devicePlugin": {"replicas": 2}}, NEWEST, "replicas"),
        ({"extender": {"replicas": 0}}, NEWEST, "replicas"),
    ],
    ids=str,
)
async def test_a_choice_that_cannot_work_is_refused(
    helm: Path, values: Mapping[str, Any], kubernetes: str, message: str
) -> None:
    """By a message with the way out; values that do not exist, by the schema."""
    with pytest.raises(ClusterError, match=message):
        await rendered(helm, values, kubernetes=kubernetes)


@_MANY
async def test_another_namespace_is_refused(helm: Path) -> None:
    """The admission policies name accounts in kube-system, and in another one they would protect nothing."""
    with pytest.raises(ClusterError, match="--namespace kube-system"):
        await rendered(helm, {}, namespace="gpu")


@_MANY
async def test_older_clusters_have_their_choice(helm: Path) -> None:
    """The refusals do not refuse the ways out that they name."""
    chosen = values_of({"without-policies", "slots-without-policy"})
    kinds = {item["kind"] for item in await rendered(helm, chosen, kubernetes="1.24.0")}

    assert kinds > {"Deployment", "DaemonSet"}
    assert not [kind for kind in kinds if kind.endswith(("AdmissionPolicy", "AdmissionPolicyBinding"))]


VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def test_each_component_has_a_value_that_is_off() -> None:
    """In the values, and in their schema, which refuses others."""
    off = {value_of(name): False for name in COMPONENTS}
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]

    assert VALUES["components"] == off
    assert schema.keys() >= VALUES.keys()
    for name in ("components", "overlays"):
        assert schema[name]["properties"].keys() == VALUES[name].keys()
        assert schema[name]["additionalProperties"] is False
    assert VALUES["overlays"] == {value_of(name): False for name in OVERLAYS}
    conditions = {word.strip("()") for part in parts() for word in part.condition.split()}
    assert {f".Values.components.{name}" for name in off} < conditions


def test_a_patch_that_a_chart_cannot_express_is_refused() -> None:
    """It would be lost without a trace."""
    with pytest.raises(ValueError, match="copy"):
        chart_templates.apply({"a": 1}, {"op": "copy", "from": "/a", "path": "/b"}, "c")
