"""The refusals of the API server: each is a ``Status`` object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusters.api.resources import Resource
from clusters.embedded.apiserver.api_objects import Object


class RefusalError(Exception):
    """A request that is refused; ``code`` is the HTTP status, ``reason`` the machine word."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_metadata: Object = {}

    def status(self) -> Object:
        """The ``Status`` object that the client gets."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field: its path, the kind of fault (``FieldValueInvalid``…), and the text after the path."""

    field: str
    reason: str
    message: str


def group_of(resource: Resource) -> str:
    """The API group; an empty text for the core group."""
    return resource.api_version.rpartition("/")[0]


def qualified(word: str, resource: Resource) -> str:
    """``pods``, but ``deployments.apps``: how messages name kinds."""
    group = group_of(resource)
    return f"{word}.{group}" if group else word


def details_of(resource: Resource, name: str, **more: Any) -> Object:
    """The ``details`` of a Status that is about one object."""
    details: Object = {**({"name": name} if name else {}), "kind": resource.plural, **more}
    if group_of(resource):
        details["group"] = group_of(resource)
    return details


def success(resource: Resource, name: str, uid: str) -> Object:
    """The Status that confirms that an object is gone."""
    details = details_of(resource, name, uid=uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def not_found(resource: Resource, name: str) -> RefusalError:
    """404: there is no such object."""
    message = f'{qualified(resource.plural, resource)} "{name}" not found'
    return RefusalError(404, "NotFound", message, details_of(resource, name))


def no_such_path() -> RefusalError:
    """404: nothing of this server is below that path."""
    return RefusalError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> RefusalError:
    """409: the name is taken, maybe by an object on its way out."""
    message = f'{qualified(resource.plural, resource)} "{name}" already exists'
    if deleting:
        message = f"object is being deleted: {message}"
    return RefusalError(409, "AlreadyExists", message, details_of(resource, name))


def conflict(resource: Resource, name: str, why: str) -> RefusalError:
    """409: the object is not in the state that the writer takes for granted."""
    message = f'Operation cannot be fulfilled on {qualified(resource.plural, resource)} "{name}": {why}'
    return RefusalError(409, "Conflict", message, details_of(resource, name))


def modified(resource: Resource, name: str) -> RefusalError:
    """409: another client wrote in between."""
    return conflict(
        resource, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> RefusalError:
    """422: fields that make no sense, all of them in one answer."""
    message = f'{qualified(resource.kind, resource)} "{name}" is invalid: {_listed(errors)}'
    details = {**details_of(resource, name, causes=_causes(errors)), "kind": resource.kind}
    return RefusalError(422, "Invalid", message, details)


def options_invalid(kind: str, errors: Sequence[FieldError]) -> RefusalError:
    """422: options of a request that contradict each other or make no sense."""
    details = {"group": "meta.k8s.io", "kind": kind, "causes": _causes(errors)}
    return RefusalError(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {_listed(errors)}', details)


def _listed(errors: Sequence[FieldError]) -> str:
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _causes(errors: Sequence[FieldError]) -> list[Object]:
    return [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]


def bad_request(message: str) -> RefusalError:
    """400: a request that cannot be understood."""
    return RefusalError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> RefusalError:
    """403: understood, and not allowed in this state."""
    message = f'{qualified(resource.plural, resource)} "{name}" is forbidden: {why}'
    return RefusalError(403, "Forbidden", message, details_of(resource, name))


def terminating(resource: Resource, metadata: Object, namespace: str) -> RefusalError:
    """403: nothing new comes into a namespace that is being deleted."""
    name = metadata.get("name") or metadata.get("generateName", "")
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = forbidden(resource, name, why)
    text = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal


def patch_invalid(message: str) -> RefusalError:
    """422: what a patch has made is no object of its kind."""
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return RefusalError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": [cause]})


def method_not_allowed() -> RefusalError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return RefusalError(405, "MethodNotAllowed", message, {})


def too_large(message: str) -> RefusalError:
    """413."""
    return RefusalError(413, "RequestEntityTooLarge", message)


def expired(version: int, oldest: int) -> RefusalError:
    """410: changes that far back are not remembered; the client must list again."""
    return RefusalError(410, "Expired", f"too old resource version: {version} ({oldest})")


def too_new(version: int, current: int) -> RefusalError:
    """504: a resource version that this server has not reached (it was restarted, say)."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return RefusalError(504, "Timeout", message, details)


def not_imitated(what: str) -> RefusalError:
    """501: a real server knows it, and the embedded one does not."""
    return RefusalError(501, "NotImplemented", f"the embedded cluster does not imitate {what}")


def internal(message: str) -> RefusalError:
    """500."""
    return RefusalError(500, "InternalError", f"Internal error occurred: {message}")
