"""Questions of users about themselves: their rights (``kubectl auth can-i``), and their name (``kubectl auth whoami``).

Lists of rights, and questions about others, are not imitated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, without_nulls
from clusters.embedded.apiserver.authentication import User
from clusters.embedded.apiserver.authorization import Attributes, Authorizer
from clusters.embedded.apiserver.refusals import bad_request, method_not_allowed
from clusters.embedded.apiserver.requests import Answer, Request, json_answer

_RESOURCE_FIELDS: Final = ("group", "resource", "subresource", "namespace", "name")


@dataclass(frozen=True, slots=True)
class Review:
    """One kind of question."""

    group: str
    kind: str

    @property
    def plural(self) -> str:
        """Its word in a path."""
        return f"{self.kind.lower()}s"


_RIGHTS: Final = Review("authorization.k8s.io", "SelfSubjectAccessReview")
_NAME: Final = Review("authentication.k8s.io", "SelfSubjectReview")
REVIEWS: Final = (_RIGHTS, _NAME)
_AT: Final = {f"/apis/{review.group}/v1/{review.plural}": review for review in REVIEWS}


class AccessReviews:
    """Answers them; ``now`` is the time of day as the API writes it."""

    def __init__(self, authorizer: Authorizer, now: Callable[[], str]) -> None:
        self._authorizer = authorizer
        self._now = now

    def answer(self, request: Request) -> Answer | None:
        """The answer to a request for a review, None for any other request. Raises RefusalError."""
        found = _AT.get(request.path.rstrip("/"))
        if found is None:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        spec = without_nulls(request.object()).get("spec", {})
        if not isinstance(spec, dict):
            raise bad_request(f"{found.kind}: spec must be an object")
        head: Object = {"kind": found.kind, "apiVersion": f"{found.group}/v1"}
        if found == _NAME:
            answer = {"metadata": {"creationTimestamp": self._now()}, "status": {"userInfo": user_info(request.user)}}
        else:
            allowed = self._authorizer.allows(request.user, attributes_in(spec))
            answer = {"metadata": {}, "spec": spec, "status": {"allowed": allowed}}
        return json_answer(head | answer, 201)


def attributes_in(spec: Object) -> Attributes:
    """The request that a review asks about. Raises RefusalError (400)."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        raise bad_request("spec: either resourceAttributes or nonResourceAttributes must be specified")
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", "") or "/")
    assert resource is not None
    fields = {key: str(resource.get(key, "")) for key in _RESOURCE_FIELDS}
    return Attributes(str(resource.get("verb", "")), **fields)


def user_info(user: User) -> Object:
    """A user as the API writes it."""
    info: dict[str, Any] = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
