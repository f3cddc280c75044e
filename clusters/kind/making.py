"""The steps that make a kind cluster; each step gives a stack the call that undoes it."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from clusters.api import admission_policies
from clusters.api.api_client import ApiClient
from clusters.api.waiting import all_or_none
from clusters.deploy import render
from clusters.kind import kind_config, product
from clusters.kind.deployed_programs import DeployedPrograms
from clusters.kind.engine.engine import using
from clusters.kind.equipment import Equipment, find
from clusters.kind.extender_door import ExtenderDoor
from clusters.kind.image_archive import archive_of
from clusters.kind.joining import join
from clusters.kind.kind_nodes import KindNodes
from clusters.kind.kubeconfigs import ApiServer, adopt
from clusters.kind.node_container import thawing
from clusters.kind.program_images import card_mount
from clusters.kind.sweeping import RunRecord, containers_of, folder_of_runs, record, remove_containers, sweep
from clusters.kind.workers import Workers
from clusters.processes.running_clusters import CHECKOUT
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError, NodeSpec
from clusters.targets import Target


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster to make."""

    nodes: Sequence[NodeSpec]
    target: Target
    environment: Mapping[str, str]
    minor: str
    """Of Kubernetes: ``1.36``."""
    node_image: str
    """"" for the one that we build."""
    image_base: str
    """On which our programs' images are built; "" for one of this machine's packages."""
    announce: Callable[[Path], None]
    """Called with the kubeconfig as soon as the API server answers."""


@dataclass(frozen=True, slots=True)
class Made:
    """A cluster with its nodes up and the programs under test on their way."""

    name: str
    nodes: list[NodeSpec]
    folder: Path
    environment: dict[str, str]
    """For programs that talk to Docker."""
    archive: Path
    """The images of the programs under test."""
    manifests: Sequence[dict[str, Any]]
    """As shipped, with this run's images."""
    workers: Workers
    api_server: ApiServer
    api: ApiClient
    programs: DeployedPrograms
    door: ExtenderDoor


async def make(plan: Plan, stack: AsyncExitStack) -> Made:
    """Make it. Raises ClusterError; then, too, ``stack`` undoes what was done."""
    try:
        # Until the nodes are gone again, no checkout ends the Docker.
        stack.enter_context(using(plan.environment, "a kind cluster"))
    except ClusterError as error:
        raise ClusterError(f"provider kind: {error}") from error
    equipment = await asyncio.to_thread(
        find, plan.minor, plan.environment, sys.stderr, node_image_name=plan.node_image, image_base=plan.image_base
    )
    folder = stack.enter_context(scratch_folder())
    name = await _take_name(equipment, stack)
    sets = product.plugin_sets(plan.nodes)
    workers = Workers(name, folder / "n", equipment.environment, sets)
    archive, manifests = await asyncio.gather(
        archive_of(equipment.images_on_nodes(), equipment.cache / "images", equipment.environment),
        _manifests(equipment),
    )
    config = _write_config(name, equipment, folder, workers, workers.prepare(plan.nodes), archive.parent)
    nodes = KindNodes(config, folder / "kind.kubeconfig", equipment.environment)
    # After the other: what came while kind was being ended.
    stack.push_async_callback(remove_containers, name, equipment.environment)
    stack.push_async_callback(_delete, nodes, name, equipment.environment)
    await nodes.create_nodes()
    api_server = adopt(folder / "kind.kubeconfig", folder / "kubeconfig")
    plan.announce(api_server.kubeconfig)
    api = await stack.enter_async_context(ApiClient.from_kubeconfig(api_server.kubeconfig))
    await _import_images(workers, [workers.control_plane, *workers.names()], archive)
    for manifest in product.fitted(manifests, plan.target, sets):
        await api.create(manifest)
    await admission_policies.install(api, plan.target.policy_manifests(), plan.target.policy_probe)
    door = ExtenderDoor(
        equipment.kubectl,
        api_server.kubeconfig,
        workers.control_plane,
        equipment.environment,
        folder / "port-forward.log",
    )
    stack.push_async_callback(door.close)
    door.open()
    programs = DeployedPrograms(api, workers.container, workers.sets, folder)
    return Made(
        name,
        list(plan.nodes),
        folder,
        equipment.environment,
        archive,
        manifests,
        workers,
        api_server,
        api,
        programs,
        door,
    )


async def add_worker(made: Made, target: Target, node: NodeSpec) -> None:
    """Let a further worker join, and the plugin come to it. Raises ClusterError."""
    if node.name in made.workers.names():
        raise ClusterError(f"there is a node {node.name!r} already")
    first = made.workers.names()[0]
    made.nodes.append(node)
    known = set(made.workers.sets.values())
    sets = product.plugin_sets(made.nodes)
    made.workers.assign(sets)
    (worker,) = made.workers.prepare([node])
    container = made.workers.container(node.name).container
    await join(made.name, worker, made.workers.container(first), container, made.environment)
    await _import_images(made.workers, [node.name], made.archive)
    new = [one for one in sets if one.name not in known]
    for manifest in product.fitted(made.manifests, target, new):
        if manifest["kind"] == "DaemonSet":
            await made.api.create(manifest)


async def _import_images(workers: Workers, nodes: Sequence[str], archive: Path) -> None:
    """Into the stores of these nodes, in parallel; the folder of the archive is handed in to each."""
    inside = f"{kind_config.HANDED_IN}/{archive.name}"
    await all_or_none(*(workers.container(node).import_images(inside) for node in nodes))


async def _delete(nodes: KindNodes, cluster: str, environment: Mapping[str, str]) -> None:
    async with thawing(await containers_of(cluster, environment)):
        await nodes.delete_nodes()


async def _take_name(equipment: Equipment, stack: AsyncExitStack) -> str:
    """A free name, recorded as in use; the leftovers of killed runs are removed first."""
    runs = folder_of_runs(equipment.environment)
    await sweep(runs, equipment.environment)
    name = f"{kind_config.PREFIX}{secrets.token_hex(4)}"
    docker_host = equipment.environment.get("DOCKER_HOST", "")
    stack.enter_context(record(runs, RunRecord(name, docker_host, os.getpid(), CHECKOUT)))
    return name


async def _manifests(equipment: Equipment) -> list[dict[str, Any]]:
    """The manifests that we ship for kind, with this run's images."""
    images = {
        render.EXTENDER_IMAGE: equipment.images.extender,
        render.SIMULATED_IMAGE: equipment.images.device_plugin_simulated,
    }
    return await render.render(equipment.kubectl, render.OVERLAY_KIND, images=images)


def _write_config(
    name: str, equipment: Equipment, folder: Path, workers: Workers, nodes: Sequence[kind_config.Worker], images: Path
) -> Path:
    """kind's file, and those that it gives to the nodes."""
    files = kind_config.Files(
        images=images,
        scheduler_config=folder / "scheduler-config.yaml",
        container_specification=folder / "container.json",
        no_cards=folder / "no-cards",
        logs=workers.logs(workers.control_plane),
    )
    files.no_cards.mkdir()
    files.logs.mkdir(parents=True)
    shutil.copy(render.BASE / files.scheduler_config.name, files.scheduler_config)
    files.container_specification.write_text(equipment.container_specification)
    patches = kind_config.Patches(render.SCHEDULER_PATCH.read_text(), card_mount.CONTAINERD_PATCH)
    path = folder / "kind.yaml"
    config = kind_config.cluster_config(name, equipment.node_image, nodes, files, patches)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
