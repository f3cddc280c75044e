"""The commands: read the API server, ask the core."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import msgspec

from gpushare.cli.answer_forms import counted
from gpushare.cli.kubectl_flags import path_of
from gpushare.errors import UsageError
from gpushare.foreign import UnreadableError
from gpushare.kube.api_errors import ApiError, ForbiddenError, InvalidError, MissingRightError, NotFoundError
from gpushare.kube.client import pod_path
from gpushare.kubectl_gpushare import manifest_files
from gpushare.kubectl_gpushare.cluster_reading import EVENTS_HIDDEN, NODES_HIDDEN, Reading
from gpushare.kubectl_gpushare.core.cluster_state import ClusterState, subject_of
from gpushare.kubectl_gpushare.core.diagnosis import Installation, SeenPods, diagnosis, not_asked
from gpushare.kubectl_gpushare.core.explanation import (
    API_VERSION,
    BOUND,
    ENDED,
    WAITING,
    binder_of,
    event_list,
    explain_owner,
    explain_pod,
    state_of,
)
from gpushare.kubectl_gpushare.core.manifest_pods import PodsOfObject
from gpushare.kubectl_gpushare.core.memory_use import top
from gpushare.kubectl_gpushare.core.pod_owners import refusal_kind
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, Event
from gpushare.kubectl_gpushare.core.simulation import refused, simulate
from gpushare.kubectl_gpushare.core.waiting_causes import Cause
from gpushare.kubectl_gpushare.gpushare_arguments import (
    DoctorArguments,
    EventsArguments,
    ExplainArguments,
    SimulateArguments,
    TopArguments,
)
from gpushare.kubectl_inspect.core.card_report import findings, report
from gpushare.kubectl_inspect.node_lists import Lists
from gpushare.manifests import AnyObject, Pod, ReportedNode
from gpushare.model.allocation import read_allocation
from gpushare.model.conditions import healthy_condition, seconds_of
from gpushare.setup.cluster_objects import objects_of
from gpushare.setup.core.faults import Fault
from gpushare.setup.core.installed_objects import bypasses_extender, scheduler_faults

USE_HIDDEN: Final = (
    "use on {}: their device plugins run without --usage, or their /metrics cannot be reached through the API server "
    "(clusters/deploy/components/metrics, and the right to get pods/proxy in kube-system)"
)
_TELLING: Final = (WAITING, BOUND, ENDED)
# Less than the hour for which an API server keeps events (--event-ttl), in seconds.
_EVENTS_KEPT: Final = 3000.0
# Schedulers of which the last pod is looked at.
_MOST_SCHEDULERS: Final = 5
_SCHEDULED: Final = "Scheduled"
# Where events about objects without a namespace are.
_OF_NODES: Final = "default"
INSTALLATION_HIDDEN: Final = "Deployment and DaemonSet of gpushare in kube-system (you may not read them)"
NAMESPACE_HIDDEN: Final = "admission (there is no namespace {!r} yet): its defaults, policies and quotas do not count"
ADMISSION_HIDDEN: Final = "admission (you may not create pods): defaults, policies and quotas do not count"


async def explain(asked: ExplainArguments, reading: Reading) -> dict[str, Any]:
    """The answer about one pod, or about an object that makes pods. Raises ApiError."""
    state, (kind, name) = reading.state, asked.wanted

    def explained_pod(subject: AskedPod, events: Sequence[Event]) -> dict[str, Any]:
        born = seconds_of(subject.metadata.creation_timestamp)
        is_young = born is not None and reading.now - born < _EVENTS_KEPT
        answer = explain_pod(subject, state, events, are_whole=is_young and EVENTS_HIDDEN not in state.hidden)
        # Without a request its amounts cannot be read.
        nodes = [answer["node"]] if "node" in answer and "request" in answer else answer.get("fits", ())
        return answer | {"warnings": state.warnings + state.too_small(subject, nodes)}

    if kind in ("", "pod"):
        try:
            subject = await reading.subject(name)
        except NotFoundError:
            if kind:
                raise _absent(kind, reading.namespace, name, state) from None
        else:
            await reading.lists()
            return explained_pod(subject, await reading.events(name))
    family = await reading.family(kind, name)
    if family is None:
        raise _absent(kind, reading.namespace, name, state)
    pods = list[Pod]()
    await reading.lists(lambda pod: pods.append(pod) if family.owns(pod) else None)
    events = await reading.events("")
    # One that waits, else one that is bound, else one that has ended.
    chosen = min(pods, key=lambda pod: (_TELLING.index(state_of(pod)), pod.metadata.name), default=None)
    explained: dict[str, Any] = {}
    if chosen is not None:
        with contextlib.suppress(NotFoundError):
            explained = explained_pod(await reading.subject(chosen.metadata.name), events)
    return {"warnings": state.warnings} | explain_owner(family, pods, explained, events, state.hidden)


def _absent(kind: str, namespace: str, name: str, state: ClusterState) -> ApiError:
    """The first thing that it names is what could not be read."""
    if state.hidden:
        kinds = [one.partition(" ")[0] for one in state.hidden]
        rest = "" if kind else f"; there is no pod {name!r}"
        return MissingRightError(
            f"you may not get {', '.join(kinds)} in namespace {namespace!r}, so it is not known "
            f"whether one is named {name!r}{rest}; "
            f"`kubectl auth can-i get {kinds[0]} -n {namespace}` shows the right that lacks",
            403,
        )
    what = kind or "pod"
    other = "" if kind else ", nor anything else of that name that makes pods"
    return NotFoundError(
        f"there is no {what} {name!r} in namespace {namespace!r}{other}; `kubectl get {what}s -n {namespace}` lists them",
        404,
    )


async def list_events(asked: EventsArguments, reading: Reading) -> dict[str, Any]:
    """The answer about the events of a namespace, or of all; those of nodes are in ``default``. Raises ApiError."""
    events = list[Event]()
    for kind, name in asked.names or (("", ""),):
        of = "" if asked.all_namespaces else _OF_NODES if kind == "node" else None
        events += (one for one in await reading.events(name, of) if kind in ("", one.involved_object.kind.lower()))
    return event_list(events, list(dict.fromkeys(reading.state.hidden)))


async def _nodes_and_pods(reading: Reading, see: Callable[[Pod], object]) -> tuple[list[ReportedNode], Lists]:
    """The lists that are needed whole. Raises ApiError."""
    nodes, lists = list[ReportedNode](), Lists()
    await reading.client.read_each("/api/v1/nodes", ReportedNode, nodes.append)
    await lists.read_pods(reading.client, see=see)
    return nodes, lists


async def show_use(asked: TopArguments, reading: Reading) -> dict[str, Any]:
    """The answer about use; it needs the lists of nodes and pods. Raises ApiError."""
    seen, namespace = SeenPods(), reading.namespace
    nodes, lists = await _nodes_and_pods(reading, seen.take_plugin)
    uses = await reading.uses({node: f"{pod_path(*pod)}:{asked.metrics_port}" for node, pod in seen.plugins.items()})
    silent = {pod.node for pod in lists.pods} - uses.keys()
    hidden = [USE_HIDDEN.format(counted(len(silent), "node"))] if silent else []
    reports, _ = report(nodes, lists.pods)
    conditions = {
        node.metadata.name: condition.status for node in nodes if (condition := healthy_condition(node)) is not None
    }
    answer = top(reports, uses, conditions, hidden) | {"warnings": [pod.warning for pod in lists.unreadable]}
    things, names = asked.wanted
    if things == "pods" and not asked.all_namespaces:
        answer["pods"] = [one for one in answer["pods"] if one["namespace"] == namespace]
    if names:
        answer[things] = [one for one in answer[things] if one["name"] in names]
        if missing := sorted(set(names) - {one["name"] for one in answer[things]}):
            where = f" in namespace {namespace!r}" if things == "pods" and not asked.all_namespaces else ""
            raise NotFoundError(f"there are no {things} with a shared card named {', '.join(missing)}{where}", 404)
    return answer


async def diagnose(asked: DoctorArguments, reading: Reading) -> dict[str, Any]:
    """The answer about the whole cluster; it needs the lists of nodes and pods. Raises ApiError."""
    seen, hidden, now = SeenPods(), list[str](), reading.now
    nodes, lists = await _nodes_and_pods(reading, seen.take)
    try:
        installed = Installation(*await objects_of(reading.client), await reading.backends())
    except MissingRightError:
        installed = None
        hidden.append(INSTALLATION_HIDDEN)
    reports, problems = report(nodes, lists.pods)
    found = findings(nodes, lists.pods, reports, problems, now, asked.assumed_for)
    faults = [
        *(
            Fault(one.warning, f"kubectl get -o yaml pod/{one.metadata.name} -n {one.metadata.namespace}")
            for one in lists.unreadable
        ),
        *scheduler_faults(seen.bypassing),
        *[one async for one in _schedulers_that_do_not_ask(reading, seen)],
    ]
    return diagnosis(installed, faults, found, nodes, seen, now, hidden)


async def _schedulers_that_do_not_ask(reading: Reading, seen: SeenPods) -> AsyncIterator[Fault]:
    """By the last pod of each scheduler: without a right to it and to its events, nothing is known."""
    for _, namespace, name in list(seen.last.values())[:_MOST_SCHEDULERS]:
        try:
            subject = subject_of(await reading.client.request("GET", pod_path(namespace, name)))
        except (MissingRightError, NotFoundError, UnreadableError):
            continue
        if bypasses_extender(subject):
            continue
        found = await reading.events(name, namespace)
        events = [one for one in found if one.involved_object.uid in (None, "", subject.metadata.uid)]
        allocation, _ = read_allocation(subject, subject.metadata.annotations)
        if any(one.reason == _SCHEDULED for one in events) and (
            fault := not_asked(binder_of(subject, allocation, events), namespace, name)
        ):
            yield fault


async def simulate_manifest(asked: SimulateArguments, reading: Reading) -> dict[str, Any]:
    """The answer about each object of a manifest, one after the other on the same cluster. Raises GpushareError."""
    manifest = manifest_files.read(asked.filenames, reading.given, recursive=asked.recursive)
    state = reading.state = ClusterState(asked.policy)
    await reading.lists()
    if NODES_HIDDEN in state.hidden:
        raise MissingRightError("without the right to list nodes it cannot be known which pods have room", 403)
    workloads, warnings = list[dict[str, Any]](), state.warnings
    for one in manifest.workloads:
        if asked.replicas is not None:
            one = one._replace(replicas=asked.replicas, note="", uid="")
        namespace = one.namespace or reading.namespace
        try:
            pod = await _admitted(reading, one, namespace) if asked.dry_run else _as_written(one, namespace)
        except UnreadableError as error:
            raise UsageError(f"{one.title} cannot be read: {error}") from error
        if isinstance(pod, AskedPod):
            found = simulate(one, pod, state, await _nodes_of(reading, one))
            warnings += state.too_small(pod, [place["node"] for place in found.get("placements", ())])
            workloads.append(found)
        else:
            workloads.append(refused(one, pod))
    return {
        "apiVersion": API_VERSION,
        "kind": "Simulation",
        "workloads": workloads,
        "passedOver": manifest.passed_over,
        "unjudged": manifest.unjudged,
        "warnings": warnings,
        "hidden": state.hidden,
    }


async def _nodes_of(reading: Reading, one: PodsOfObject) -> list[str]:
    """The nodes of its pods, if it was read from the cluster; those of a Deployment belong to its ReplicaSets."""
    owners = [one.uid] if one.uid else []
    if owners and one.title.startswith("deployment/"):

        def take(made: AnyObject) -> None:
            if any(owner.uid == one.uid for owner in made.metadata.owner_references or ()):
                owners.append(made.metadata.uid)

        try:
            await reading.client.read_each(path_of("replicaset", one.namespace), AnyObject, take)
        except MissingRightError:
            reading.state.hidden.append(
                f"ReplicaSets of {one.namespace} (you may not list them): pods of {one.title} may be there"
            )
    return [node for owner in owners for node in reading.state.nodes_of[owner]]


def _as_written(one: PodsOfObject, namespace: str) -> AskedPod:
    """The pod as the manifest has it. Raises UnreadableError."""
    pod = one.pod | {"metadata": {**(one.pod.get("metadata") or {}), "namespace": namespace}}
    return subject_of(msgspec.json.encode(pod))


async def _admitted(reading: Reading, one: PodsOfObject, namespace: str) -> AskedPod | Cause:
    """The pod as the API server would store it, or why it would not; as written for a caller that may create none."""
    written = one.pod.get("metadata") or {}
    # A name that may be there already is no reason to refuse.
    metadata = {name: value for name, value in written.items() if name != "name"} | {
        "namespace": namespace,
        "generateName": "gpushare-simulate-",
    }
    body = {"apiVersion": "v1", "kind": "Pod", **one.pod, "metadata": metadata}
    path = path_of("pod", namespace)
    try:
        return subject_of(await reading.client.request("POST", path, body=body, params={"dryRun": "All"}))
    except (MissingRightError, NotFoundError) as error:
        hidden = ADMISSION_HIDDEN if isinstance(error, MissingRightError) else NAMESPACE_HIDDEN.format(namespace)
        reading.state.hidden += [hidden] if hidden not in reading.state.hidden else []
        return _as_written(one, namespace)
    except (ForbiddenError, InvalidError) as error:
        return Cause(refusal_kind(str(error)), str(error))
