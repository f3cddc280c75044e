"""The objects of every namespace: the ServiceAccount ``default``, and the certificate of the API server's authority. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.api.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from clusters.embedded.controllers.actions import Action, Create, Object, Patch

ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_ABOUT: Final = "kubernetes.io/description"
_WORDS: Final = "The certificates by which programs in the cluster know its API server."


def furnished(
    namespaces: Sequence[Object], accounts: Sequence[Object], maps: Sequence[Object], ca: str
) -> list[Action]:
    """Make what is missing, and put back what was changed; ``ca`` is empty for a cluster that has no certificates."""
    known = {_place(item) for item in accounts}
    published = {_place(item): item for item in maps}
    actions: list[Action] = []
    for namespace in namespaces:
        name = namespace["metadata"]["name"]
        if namespace["metadata"].get("deletionTimestamp"):
            continue
        if (name, ACCOUNT) not in known:
            metadata = {"name": ACCOUNT, "namespace": name}
            actions.append(Create({"apiVersion": "v1", "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}))
        if ca:
            actions += _published(name, published.get((name, ROOT_CA)), ca)
    return actions


def _published(namespace: str, there: Object | None, ca: str) -> list[Action]:
    data = {_KEY: ca}
    if there is None:
        metadata = {"name": ROOT_CA, "namespace": namespace, "annotations": {_ABOUT: _WORDS}}
        return [Create({"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data})]
    return [] if there.get("data") == data else [Patch(CONFIG_MAPS, there, {"data": data})]


def _place(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]
