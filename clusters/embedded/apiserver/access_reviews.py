"""Questions of users about themselves: their rights (``kubectl auth can-i``), and their name (``kubectl auth whoami``).

Lists of rights, and questions about others, are not imitated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, without_nulls
from clusters.embedded.apiserver.authentication import User
from clusters.embedded.apiserver.authorization import Attributes, Authorizer
from clusters.embedded.apiserver.refusals import bad_request, method_not_allowed
from clusters.embedded.apiserver.requests import Answer, Request, json_answer

_FIELDS: Final = ("verb", "group", "resource", "subresource", "namespace", "name")
# The kind of each question, by its group.
REVIEWS: Final = {"authorization.k8s.io": "SelfSubjectAccessReview", "authentication.k8s.io": "SelfSubjectReview"}
_AT: Final = {f"/apis/{group}/v1/{kind.lower()}s": (group, kind) for group, kind in REVIEWS.items()}


class AccessReviews:
    """Answers them; ``now`` is the time of day as the API writes it."""

    def __init__(self, authorizer: Authorizer, now: Callable[[], str]) -> None:
        self._authorizer = authorizer
        self._now = now

    def answer(self, request: Request) -> Answer | None:
        """The answer to a request for a review, None for any other request. Raises RefusalError."""
        if request.path not in _AT:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        group, kind = _AT[request.path]
        spec = without_nulls(request.object()).get("spec", {})
        head: Object = {"kind": kind, "apiVersion": f"{group}/v1"}
        if kind == "SelfSubjectReview":
            answer = {"metadata": {"creationTimestamp": self._now()}, "status": {"userInfo": user_info(request.user)}}
        else:
            allowed = self._authorizer.allows(request.user, attributes_in(spec))
            answer = {"metadata": {}, "spec": spec, "status": {"allowed": allowed}}
        return json_answer(head | answer, 201)


def attributes_in(spec: Any) -> Attributes:
    """The request that a review asks about. Raises RefusalError (400)."""
    for key, fields in (("resourceAttributes", _FIELDS), ("nonResourceAttributes", ("verb", "path"))):
        if isinstance(spec, dict) and isinstance(asked := spec.get(key), dict):
            return Attributes(**{field: str(asked.get(field, "")) for field in fields})
    raise bad_request("spec: either resourceAttributes or nonResourceAttributes must be specified")


def user_info(user: User) -> Object:
    """A user as the API writes it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in info.items() if value}
