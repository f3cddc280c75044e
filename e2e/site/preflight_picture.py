"""A cluster as its API server shows it before an installation or a validation, with what it refuses to show. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple, Self

from clusters.api.resources import NAMESPACES, NODES, PODS, SERVICES, Resource
from e2e import spec
from e2e.site.node_cards import offers
from e2e.site.picture import DEVICE_PLUGIN, Object, Parts, Picture, labels_of, parts_of, within
from e2e.site.preflight_lines import UnseenError

EXTENDER: Final = "gpushare-schd-extender"
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
_RIGHTS_FILE: Final = "bind the account to the role in e2e/site/preflight-rbac.yaml"


class Right(NamedTuple):
    """One thing that an account may be allowed to do, in ``namespace`` or in all, with any object or the one of that name."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class ClusterPicture:
    """Objects by kind, or the reason why they cannot be listed; ``rights`` likewise."""

    now: datetime
    version: str
    listed: Mapping[Resource, Sequence[Object] | str]
    rights: Mapping[Right, bool | str]
    policies: frozenset[str] = frozenset()
    """Names of the admission policies that clusters/deploy/base installs."""

    def parts(self) -> Parts:
        """See ``Divisible``."""
        return parts_of(self._shown(NODES), self._shown(PODS))

    def of(self, parts: Iterable[Sequence[Object]]) -> Self:
        """See ``Divisible``."""
        nodes, pods = within(self._shown(NODES), self._shown(PODS), parts)
        seen = {resource: found for resource, found in ((NODES, nodes), (PODS, pods)) if self._shown(resource)}
        return replace(self, listed={**self.listed, **seen})

    def _shown(self, resource: Resource) -> Sequence[Object]:
        found = self.listed.get(resource, ())
        return () if isinstance(found, str) else found

    def all(self, resource: Resource) -> Sequence[Object]:
        """All objects of the kind that were asked for. Raises UnseenError."""
        found = self.listed.get(resource, "they were not asked for")
        if isinstance(found, str):
            raise UnseenError(f"{resource.plural} cannot be listed: {found}", _RIGHTS_FILE)
        return found

    @cached_property
    def sharing(self) -> Picture:
        """As ``observe`` sees it. Raises UnseenError without nodes; pods that cannot be listed are not there."""
        return Picture(self.now, self.all(NODES), self._shown(PODS))

    @property
    def minor(self) -> int:
        """36 of an API server of version 1.36; 0 if its version cannot be read."""
        return minor_of(self.version)

    def is_installed(self) -> bool:
        """Is any part of gpushare there? Raises UnseenError."""
        programs = (is_program(pod, EXTENDER) or is_program(pod, DEVICE_PLUGIN) for pod in self.all(PODS))
        return any(offers(node, spec.RESOURCE_MEMORY) for node in self.all(NODES)) or any(programs)

    def services(self) -> Iterator[tuple[str, bool, set[int]]]:
        """Name, whether it is the extender's, and node ports of each Service. Raises UnseenError."""
        for service in self.all(SERVICES):
            ports = {port.get("nodePort", 0) for port in service["spec"].get("ports") or ()}
            is_ours = (service["spec"].get("selector") or {}).get("component") == EXTENDER
            yield f"{service['metadata']['namespace']}/{service['metadata']['name']}", is_ours, ports - {0}

    def namespace(self, name: str) -> Object:
        """One namespace. Raises UnseenError."""
        return next((one for one in self.all(NAMESPACES) if one["metadata"]["name"] == name), {"metadata": {}})


def is_program(item: Object, component: str) -> bool:
    """Is it of this program, ours or the original's?"""
    labels = labels_of(item)
    return labels.get("component") == component or labels.get("name") == f"{component}-ds"


def has_ended(pod: Object) -> bool:
    """Do its containers run no more?"""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def minor_of(version: str) -> int:
    """36 of ``v1.36.3``; 0 of what is no version."""
    found = re.match(r"v?1\.(\d+)", version)
    return int(found[1]) if found else 0
