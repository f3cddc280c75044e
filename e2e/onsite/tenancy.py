"""The one namespace of a validation, and the lease by which two runs never meet.

A run that is killed leaves its namespace. The next one finds it, waits until its lease is no longer renewed, and removes
what is in it first. A namespace that an administrator has made (with the label of ``KEEP``) is emptied, and stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, Final

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.api.connection import TransportError
from clusters.api.resources import LEASES, NAMESPACES, PODS, Resource
from clusters.api.waiting import eventually, meanwhile
from e2e.site.validation_namespace import KEEP, NAMESPACE, RUN_LABEL

_LEASE: Final = "run"
# A lease that is not renewed for this long is that of a run which was killed, in seconds.
LEASE_SECONDS: Final = 15.0
_RENEWALS: Final = 5
# The API server's answers about a lease that is not there, or has another uid.
_ANOTHER: Final = (404, 409, 422)
# For namespaces and pods to go, in seconds.
_GONE_SECONDS: Final = 300.0


class TenancyError(Exception):
    """The namespace cannot be had, or was lost; the text has why, and what to do."""


class Tenancy:
    """One run's right to the namespace. ``report`` gets a line about anything that takes a while."""

    def __init__(self, api: ApiClient, run: str, report: Callable[[str], None]) -> None:
        self.run = run
        self._api = api
        self._report = report
        self._lost = ""
        self._lease_uid = ""

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """The namespace is there and ours inside, and gone behind, with all that is in it. Raises TenancyError."""
        await self._acquire()
        try:
            async with meanwhile(self._keep()):
                yield
        finally:
            await self._clear(await self._find(NAMESPACES, NAMESPACE))

    def check(self) -> None:
        """Raises TenancyError if another run may have the namespace now."""
        if self._lost:
            raise TenancyError(self._lost)

    async def _acquire(self) -> None:
        namespace = await self._find(NAMESPACES, NAMESPACE)
        if namespace is not None and not namespace["metadata"].get("deletionTimestamp"):
            await self._wait_for_others(namespace)
        if namespace is not None:
            await self._clear(namespace)
            namespace = await self._find(NAMESPACES, NAMESPACE)
        if namespace is None:
            await self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": self._metadata(NAMESPACE)})
        spec = {
            "holderIdentity": self.run,
            "leaseDurationSeconds": int(LEASE_SECONDS),
            "acquireTime": _now(),
            "renewTime": _now(),
        }
        manifest = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": self._metadata(_LEASE), "spec": spec}
        self._lease_uid = (await self._create(manifest))["metadata"]["uid"]

    def _metadata(self, name: str) -> dict[str, Any]:
        return {"name": name, "labels": {RUN_LABEL: self.run}}

    async def _create(self, manifest: Object) -> Object:
        try:
            return await self._api.create(manifest, NAMESPACE)
        except ApiError as error:
            if error.code == 409:
                raise TenancyError(f"another run took namespace {NAMESPACE} at the same moment; try again") from error
            todo = "; e2e/onsite/validate-rbac.yaml has the rights" if error.code == 403 else ""
            raise TenancyError(f"namespace {NAMESPACE} cannot be used: {error.message}{todo}") from error

    async def _wait_for_others(self, namespace: Object) -> None:
        """Return once no run holds the namespace. Raises TenancyError if one does, or if the namespace is not ours."""
        labels = namespace["metadata"].get("labels") or {}
        if RUN_LABEL not in labels and KEEP not in labels:
            raise TenancyError(
                f"namespace {NAMESPACE} exists and no validation made it; delete it, or label it {KEEP}=true if its pods may go"
            )
        lease = await self._find(LEASES, _LEASE, NAMESPACE)
        if lease is None:
            return
        holder = lease["spec"].get("holderIdentity")
        self._report(f"run {holder} has namespace {NAMESPACE}; waiting {LEASE_SECONDS:.0f} s to see whether it lives")
        until = asyncio.get_running_loop().time() + LEASE_SECONDS
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LEASE_SECONDS / _RENEWALS)
            now = await self._find(LEASES, _LEASE, NAMESPACE)
            if now is None:
                return
            if now["spec"].get("renewTime") != lease["spec"].get("renewTime"):
                raise TenancyError(f"run {holder} validates this cluster now; two runs would disturb each other")
        self._report(f"run {holder} was killed; removing what it left")

    async def _clear(self, namespace: Object | None) -> None:
        """Delete the pods and the lease in the namespace, and the namespace unless it must stay; wait until they are gone."""
        if namespace is None:
            return
        pods = await self._api.list(PODS, NAMESPACE)
        for pod in pods:
            await self._delete(PODS, pod, NAMESPACE)
        if pods:
            await eventually(
                lambda: self._api.list(PODS, NAMESPACE),
                lambda left: not left,
                f"the pods of namespace {NAMESPACE} are gone",
                seconds=_GONE_SECONDS,
            )
        lease = await self._find(LEASES, _LEASE, NAMESPACE)
        if lease is not None:
            await self._delete(LEASES, lease, NAMESPACE)
        if KEEP in (namespace["metadata"].get("labels") or {}):
            return
        await self._delete(NAMESPACES, namespace)
        await eventually(
            lambda: self._find(NAMESPACES, NAMESPACE),
            lambda found: found is None or found["metadata"]["uid"] != namespace["metadata"]["uid"],
            f"namespace {NAMESPACE} is gone",
            seconds=_GONE_SECONDS,
        )

    async def _delete(self, resource: Resource, item: Object, namespace: str | None = None) -> None:
        """Delete exactly this object, and not one of the same name that another run has made since."""
        path = resource.path(namespace, item["metadata"]["name"])
        try:
            await self._api.request("DELETE", path, body={"preconditions": {"uid": item["metadata"]["uid"]}})
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _find(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        try:
            return await self._api.get(resource, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise TenancyError(f"{resource.kind} {name} cannot be read: {error.message}") from error

    async def _keep(self) -> None:
        """Renew the lease until cancelled; a run that could not for too long must create nothing more."""
        renewed = asyncio.get_running_loop().time()
        while not self._lost:
            await asyncio.sleep(LEASE_SECONDS / _RENEWALS)
            try:
                # With its uid, so that the lease of another run is not renewed.
                patch = {"metadata": {"uid": self._lease_uid}, "spec": {"renewTime": _now()}}
                lease = await self._api.patch(LEASES, _LEASE, patch, NAMESPACE, content_type=MERGE_PATCH)
                if lease["spec"].get("holderIdentity") != self.run:
                    self._lost = f"run {lease['spec'].get('holderIdentity')} took the lease of this one"
                renewed = asyncio.get_running_loop().time()
            except (ApiError, TransportError) as error:
                if isinstance(error, ApiError) and error.code in _ANOTHER:
                    self._lost = f"the lease of this run is gone: {error.message}"
                if asyncio.get_running_loop().time() - renewed > LEASE_SECONDS:
                    self._lost = f"the lease could not be renewed for {LEASE_SECONDS:.0f} s: {error}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
