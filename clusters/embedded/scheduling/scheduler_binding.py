"""The last step of a pod's way: bind it to the node that was chosen."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.api.connection import TransportError
from clusters.api.resources import PODS
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError
from clusters.embedded.scheduling.pod_fields import uid_of

logger = logging.getLogger(__name__)


class BindError(Exception):
    """The pod was not bound, or the bind was not confirmed; the text is for the pod's event."""


async def bind(api: ApiClient, extenders: Sequence[ExtenderClient], pod: Object, node: str) -> None:
    """Bind through the extender that binds and is interested in the pod, else directly. Raises BindError.

    An ignorable extender that fails is passed over and the pod bound directly, which is why an extender that writes
    something with the binding must not be ignorable.
    """
    for extender in extenders:
        configuration = extender.configuration
        if not configuration.bind_verb or not configuration.is_interested(pod):
            continue
        try:
            return await extender.bind(pod, node)
        except ExtenderError as error:
            if not configuration.ignorable:
                raise BindError(str(error)) from error
            logger.warning("extender ignored url=%s: %s", configuration.url_prefix, error)
    await bind_directly(api, pod, node)
    return None


async def bind_directly(api: ApiClient, pod: Object, node: str) -> None:
    """POST the Binding as the scheduler's own bind plugin does. Raises BindError."""
    name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid_of(pod)},
        "target": {"kind": "Node", "name": node},
    }
    try:
        await api.request("POST", PODS.path(namespace, name, "binding"), body=body)
    except (ApiError, TransportError) as error:
        raise BindError(f'running Bind plugin "DefaultBinder": {str(error) or type(error).__name__}') from error
