"""The one namespace of a validation, the lease by which two runs never meet, and the PriorityClass of its pods.

A run has the namespace while its name is in the lease. Each step changes one object at the version that the run has seen, so of
two runs that take it together one succeeds, and the other looks again and finds the state below it::

    no namespace             -> create it
    being deleted            -> wait until it is gone
    no lease                 -> create it                    (atomic: another run's creation is refused)
    an old lease             -> write this run's name there  (atomic: the version is that of the lease which was not renewed)
    a lease that is renewed  -> refuse to start
    this run's lease         -> write its name on the namespace too, delete the pods that are left, and begin

If a pod does not fit, kube-scheduler evicts pods of lower priority for it. A look at the room before does not rule that out,
because other pods may come in between. Only ``preemptionPolicy: Never`` does, which a pod gets from a PriorityClass alone: so a run
makes one, in place of one that a killed run left, unless an administrator has made it.

In the end a run deletes the pods with its label, the class that it made, and then the namespace if its name is on it, which
takes the lease along. A namespace that an administrator has made (with the label of ``KEEP``) stays, and the lease is deleted
alone. A suspended run may lose its lease to another one. It then finds the other's name on both, and deletes its own pods alone.
No name comes back: what a run reads before it finds its name in the lease was there while it had the namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.api_client import JSON_PATCH, RETRY_SECONDS, ApiClient, ApiError, Object, is_passing
from clusters.api.connection import TransportError
from clusters.api.resources import LEASES, NAMESPACES, PODS, PRIORITY_CLASSES, Resource
from clusters.api.waiting import NotReachedError, eventually, finished, meanwhile
from e2e.site import SiteError
from e2e.site.picture import labels_of

NAMESPACE: Final = "gpushare-validation"
PRIORITY_CLASS: Final = "gpushare-validation"
# On all that a run makes, with its id.
RUN_LABEL: Final = "gpushare-validation/run"
# On a namespace that the administrator has made; any value.
KEEP: Final = "gpushare-validation/keep"
LEFT: Final = (
    f"if something of this run is left, `kubectl get pods,leases --namespace {NAMESPACE}` shows it, and the next run "
    "removes it"
)
LEASE: Final = "run"
# A lease that is not renewed for this long is that of a run which was killed, in seconds.
LEASE_SECONDS: Final = 15.0
_RENEWALS: Final = 5
# If the last renewal is older than this part of it, a run renews before it creates anything.
_SAFE: Final = 2 / 3
# For an API server that restarts, or is overloaded, in seconds.
PATIENCE_SECONDS: Final = 60.0
# For namespaces and pods to go, in seconds.
_GONE_SECONDS: Final = 300.0
# The API server's answers to a change of an object that is gone, or is not as it was seen.
_CHANGED: Final = (404, 409, 422)
_LABEL_PATH: Final = "/metadata/labels/" + RUN_LABEL.replace("/", "~1")
# In its refusal to create something in a namespace that is being deleted.
_IS_ENDING: Final = "being terminated"
# In its refusal of a pod while it does not know the ServiceAccount of a new namespace, or a new PriorityClass.
_EARLY: Final = ("service account", "PriorityClass")
# Goes on while the machine or this process sleeps.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_TROUBLE: Final = (ApiError, TransportError, NotReachedError)
_RIGHTS: Final = Path(__file__).parent / "validate-rbac.yaml"
_TODO: Final = "kubectl apply -f e2e/onsite/validate-rbac.yaml"


class TenancyError(SiteError):
    """The namespace cannot be had, or was lost; the text has why, and what to do."""


class Tenancy:
    """One run's right to the namespace.

    ``run`` is a name that no other run has. ``report`` gets a line about anything that takes a while.
    """

    def __init__(self, api: ApiClient, run: str, report: Callable[[str], None]) -> None:
        self.run = run
        self._api = ApiClient(api.http, patience=PATIENCE_SECONDS)
        # For pods: before each attempt to create one, the lease must be this run's.
        self._once = ApiClient(api.http)
        self._report = report
        self._lost = ""
        self._lease_uid = ""
        self._renewed = -math.inf
        self._has_written = False
        self._is_kept = False
        self._may_read_class = False

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """The namespace is there and ours inside, with the class, and nothing of this run is there behind. Raises TenancyError."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                try:
                    await self._take()
                    # Also while pods go, before and behind, which may take minutes.
                    await stack.enter_async_context(meanwhile(self._keep()))
                    await self._empty()
                except _TROUBLE as error:
                    todo = "; e2e/onsite/validate-rbac.yaml has the rights" if _code(error) == 403 else ""
                    raise TenancyError(f"namespace {NAMESPACE} cannot be used: {error}{todo}") from error
                yield
            finally:
                # A Ctrl-C amid it does not cut it short.
                await finished(self._leave())

    async def check(self, since: float = -math.inf) -> None:
        """Renew the lease unless it was lately, and not before ``since``. Raises TenancyError if another run may have it."""
        while not self._lost and self._renewed < max(since, _now() - LEASE_SECONDS * _SAFE):
            try:
                await self._hold()
            except (ApiError, TransportError) as error:
                raise TenancyError(f"the lease of this run cannot be renewed: {error}") from error
        if self._lost:
            raise TenancyError(self._lost)

    async def create(self, manifest: Object) -> Object:
        """Create a pod with this run's label. Raises TenancyError if another run may have the namespace, and ApiError."""
        manifest["metadata"]["labels"] = {RUN_LABEL: self.run}
        pod = await self._create_pod(manifest)
        # The creation may have taken long.
        await self.check()
        return pod

    async def remove(self, name: str = "", *, ending: str = "", seconds: float = _GONE_SECONDS) -> None:
        """Delete the pods of this run, or those of the name or ending, and wait until they are gone. Raises NotReachedError."""

        async def mine() -> list[Object]:
            pods = await self._api.list(PODS, NAMESPACE, label_selector=f"{RUN_LABEL}={self.run}")
            found = {pod["metadata"]["name"]: pod for pod in pods}
            return [pod for one, pod in found.items() if name in ("", one) and one.endswith(ending)]

        await self._delete_all(mine, f"the pods of run {self.run} are gone", seconds)

    async def _take(self) -> None:
        until = _now() + _GONE_SECONDS
        while not (
            await self._has_namespace()
            and await self._has_lease()
            and await self._has_label()
            and await self._has_class()
        ):
            if _now() > until:
                raise TenancyError(
                    f"namespace {NAMESPACE} is still being deleted, or other runs start and end there; try again later"
                )
            await asyncio.sleep(RETRY_SECONDS)

    async def _has_namespace(self) -> bool:
        """Is there one, which a run or the administrator made? If not, take a step. Raises TenancyError if it is another's."""
        namespace = await self._api.find(NAMESPACES, NAMESPACE)
        if namespace is None:
            await self._create_if_absent({"apiVersion": "v1", "kind": NAMESPACES.kind, **self._named(NAMESPACE)})
            return False
        if namespace["metadata"].get("deletionTimestamp"):
            return False
        if not labels_of(namespace).keys() & {RUN_LABEL, KEEP}:
            raise TenancyError(
                f"namespace {NAMESPACE} exists and no validation made it; delete it, or label it {KEEP}=true if its pods may go"
            )
        return True

    async def _has_lease(self) -> bool:
        """Is the lease this run's? If not, take a step. Raises TenancyError if another run renews it."""
        lease = await self._api.find(LEASES, LEASE, NAMESPACE)
        if lease is not None and _holder(lease) == self.run:
            self._lease_uid = lease["metadata"]["uid"]
            return not await self._renew()
        term = {
            "holderIdentity": self.run,
            "leaseDurationSeconds": int(LEASE_SECONDS),
            "acquireTime": _timestamp(),
            "renewTime": _timestamp(),
        }
        if lease is None:
            head = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
            await self._create_if_absent({**head, **self._named(LEASE), "spec": term})
        elif await self._is_old(lease):
            labels = {"op": "add", "path": "/metadata/labels", "value": {RUN_LABEL: self.run}}
            await self._change(LEASES, lease, {"op": "add", "path": "/spec", "value": term}, labels)
        return False

    async def _has_label(self) -> bool:
        """Is the namespace this run's to delete, or the administrator's? If not, take a step."""
        namespace = await self._api.find(NAMESPACES, NAMESPACE)
        # The lease was this run's after the namespace was read, so no later run has changed the namespace before.
        if namespace is None or namespace["metadata"].get("deletionTimestamp") or await self._renew():
            return False
        self._is_kept = KEEP in labels_of(namespace)
        if self._is_kept or labels_of(namespace).get(RUN_LABEL) == self.run:
            return True
        await self._change(NAMESPACES, namespace, {"op": "add", "path": _LABEL_PATH, "value": self.run})
        return False

    async def _has_class(self) -> bool:
        """Is there a PriorityClass for which no pod is evicted? If not, take a step. Raises TenancyError if that cannot be."""
        with _about_class("cannot be read"):
            found = await self._api.find(PRIORITY_CLASSES, PRIORITY_CLASS)
        self._may_read_class = True
        # No later run has made it: the lease was this run's after the class was read.
        if await self._renew():
            return False
        if found is None:
            manifest = manifest_of_class()
            manifest["metadata"]["labels"] = {RUN_LABEL: self.run}
            with _about_class("is missing and cannot be made"):
                await self._create_if_absent(manifest)
            return False
        # If an administrator applies the file over a run's class, that adds the label of ``KEEP``.
        if RUN_LABEL in labels_of(found) and KEEP not in labels_of(found) and not self._made(found):
            first = f"kubectl delete priorityclass {PRIORITY_CLASS}, then "
            with _about_class("of a run that was killed cannot be deleted", first):
                await self._api.delete_exactly(PRIORITY_CLASSES, found)
            return False
        if found.get("preemptionPolicy") != "Never":
            raise TenancyError(f"PriorityClass {PRIORITY_CLASS} lets pods evict others; delete it, then {_TODO}")
        return True

    async def _is_old(self, lease: Object) -> bool:
        """Wait until it has not been renewed for as long as it lasts; False if it is gone. Raises TenancyError if it is renewed."""
        self._report(
            f"run {_holder(lease)} has namespace {NAMESPACE}; waiting {LEASE_SECONDS:.0f} s to see whether it lives"
        )
        looks, has_waited_again = _RENEWALS, False
        while looks:
            await asyncio.sleep(LEASE_SECONDS / _RENEWALS)
            asked = _now()
            now = await self._api.find(LEASES, LEASE, NAMESPACE)
            if now is None:
                return False
            if now["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                raise TenancyError(f"run {_holder(now)} validates this cluster now; two runs would disturb each other")
            looks -= 1
            if _now() - asked > LEASE_SECONDS / _RENEWALS and not has_waited_again:
                # While the API server did not answer, no run could renew.
                looks, has_waited_again = _RENEWALS, True
        self._report(f"run {_holder(lease)} was killed; removing what it left")
        return True

    def _named(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {RUN_LABEL: self.run}}}

    async def _create_if_absent(self, manifest: Object) -> None:
        self._has_written = True
        try:
            await finished(self._api.create(manifest, NAMESPACE))
        except ApiError as error:
            if error.code not in (404, 409) and _IS_ENDING not in error.message:
                raise

    async def _change(self, resource: Resource, seen: Object, *operations: Object) -> None:
        """Change an object unless it has changed since it was seen."""
        self._has_written = True
        name, version = seen["metadata"]["name"], seen["metadata"]["resourceVersion"]
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        try:
            await finished(self._api.patch(resource, name, [test, *operations], NAMESPACE, content_type=JSON_PATCH))
        except ApiError as error:
            if error.code not in _CHANGED:
                raise

    async def _renew(self) -> str:
        """Renew the lease; why another run may have the namespace, "" if none has. Raises ApiError and TransportError."""
        sent = _now()
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": self._lease_uid},
            {"op": "test", "path": "/spec/holderIdentity", "value": self.run},
            {"op": "add", "path": "/spec/renewTime", "value": _timestamp()},
        ]
        try:
            await self._api.patch(LEASES, LEASE, patch, NAMESPACE, content_type=JSON_PATCH)
        except ApiError as error:
            if error.code not in _CHANGED:
                raise
            lease = await self._api.find(LEASES, LEASE, NAMESPACE)
            if lease is None or lease["metadata"]["uid"] != self._lease_uid:
                return "the lease of this run is gone"
            if _holder(lease) == self.run:
                raise
            return f"run {_holder(lease)} took the lease of this one"
        self._renewed = max(self._renewed, sent)
        return ""

    async def _hold(self) -> None:
        why = await self._renew()
        self._lost = self._lost or why

    async def _keep(self) -> None:
        """Renew the lease until another run has it; ``check`` reports why it could not be renewed."""
        while not self._lost:
            await asyncio.sleep(LEASE_SECONDS / _RENEWALS)
            with contextlib.suppress(ApiError, TransportError):
                await self._hold()

    async def _create_pod(self, manifest: Object) -> Object:
        """Try until it is created; before each attempt the lease is this run's."""
        name, until, may_be_there = manifest["metadata"]["name"], _now() + PATIENCE_SECONDS, False
        while True:
            await self.check()
            try:
                return await finished(self._once.create(manifest, NAMESPACE))
            except (ApiError, TransportError) as error:
                is_early = _code(error) == 403 and any(word in str(error) for word in _EARLY)
                if _code(error) == 409 and may_be_there:
                    pod = await self._api.get(PODS, name, NAMESPACE)
                    if labels_of(pod).get(RUN_LABEL) == self.run:
                        return pod
                if not (is_early or is_passing(error)) or _now() > until:
                    raise
            may_be_there = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _empty(self) -> None:
        """Delete the pods that earlier runs left."""

        async def theirs() -> list[Object]:
            pods = await self._api.list(PODS, NAMESPACE)
            # If the lease is this run's after they were listed, none of them is a later run's.
            await self.check(_now())
            return pods

        await self._delete_all(theirs, f"the pods that were left in namespace {NAMESPACE} are gone", _GONE_SECONDS)

    async def _delete_all(self, look: Callable[[], Awaitable[list[Object]]], what: str, seconds: float) -> None:
        async def left() -> list[Object]:
            pods = await look()
            for pod in pods:
                if not pod["metadata"].get("deletionTimestamp"):
                    await self._api.delete_exactly(PODS, pod)
            return pods

        await eventually(left, lambda pods: not pods, what, seconds=seconds)

    async def _leave(self) -> None:
        """Delete what has this run's name, and nothing else. Raises TenancyError."""
        if not self._has_written:
            return
        failed: dict[str, Exception] = {}
        kinds = f"pods,leases --namespace {NAMESPACE}" if self._is_kept else "namespaces"
        steps = [(kinds, self.remove())]
        if self._may_read_class:
            steps.append(("priorityclasses", self._delete_while(self._made, PRIORITY_CLASSES, PRIORITY_CLASS)))
        steps.append((kinds, self._delete_while(self._made, NAMESPACES, NAMESPACE)))
        steps.append((kinds, self._delete_while(lambda one: _holder(one) == self.run, LEASES, LEASE, NAMESPACE)))
        for what, step in steps:
            try:
                await step
            except _TROUBLE as error:
                failed.setdefault(what, error)
        if failed:
            commands = " && ".join(f"kubectl delete {what} --selector {RUN_LABEL}={self.run}" for what in failed)
            first = next(iter(failed.values()))
            raise TenancyError(f"something of this run is left; remove it with: {commands} ({first})") from first

    def _made(self, item: Object) -> bool:
        return labels_of(item).get(RUN_LABEL) == self.run and KEEP not in labels_of(item)

    async def _delete_while(
        self, is_mine: Callable[[Object], bool], resource: Resource, name: str, namespace: str | None = None
    ) -> None:
        """Delete it at a version at which it is this run's, and wait until it is gone or another's. Raises NotReachedError."""

        async def left() -> Object | None:
            item = await self._api.find(resource, name, namespace)
            if item is None or not is_mine(item):
                return None
            if not item["metadata"].get("deletionTimestamp"):
                await self._api.delete_exactly(resource, item, as_seen=True)
            return item

        await eventually(left, lambda item: item is None, f"{resource.kind} {name} is gone", seconds=_GONE_SECONDS)


def manifest_of_class() -> Object:
    """The PriorityClass as an administrator makes it."""
    manifests = yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8"))
    return next(one for one in manifests if one["kind"] == PRIORITY_CLASSES.kind)


@contextlib.contextmanager
def _about_class(what: str, first: str = "") -> Iterator[None]:
    """Raise TenancyError for an error of the API server."""
    try:
        yield
    except ApiError as error:
        raise TenancyError(f"PriorityClass {PRIORITY_CLASS} {what}: {error.message}; {first}{_TODO}") from error


def _holder(lease: Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity", ""))


def _code(error: Exception) -> int:
    return error.code if isinstance(error, ApiError) else 0


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
