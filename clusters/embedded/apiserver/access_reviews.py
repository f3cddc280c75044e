"""Questions about users and their rights: the reviews of authentication.k8s.io and authorization.k8s.io."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object, without_nulls
from clusters.embedded.apiserver.attributes import Attributes
from clusters.embedded.apiserver.authentication import Authenticator, User
from clusters.embedded.apiserver.authorization import Authorizer
from clusters.embedded.apiserver.refusals import FieldError, RefusalError, bad_request, method_not_allowed
from clusters.embedded.apiserver.requests import Answer, Request, json_answer
from clusters.embedded.apiserver.service_accounts import ISSUER

_AUTHORIZATION: Final = "authorization.k8s.io"
_AUTHENTICATION: Final = "authentication.k8s.io"
_RESOURCE_FIELDS: Final = ("group", "resource", "subresource", "namespace", "name")


@dataclass(frozen=True, slots=True)
class Review:
    """One kind of question."""

    group: str
    plural: str
    kind: str
    namespaced: bool = False


REVIEWS: Final = (
    Review(_AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
    Review(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    Review(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    Review(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    Review(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    Review(_AUTHENTICATION, "tokenreviews", "TokenReview"),
)


class AccessReviews:
    """Answers them; ``now`` is the time of day as the API writes it."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, now: Callable[[], str]) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now = now
        self._answers: dict[str, Callable[[Request, Object], Object]] = {
            "LocalSubjectAccessReview": self._of_somebody,
            "SelfSubjectAccessReview": self._of_oneself,
            "SelfSubjectRulesReview": self._rules,
            "SubjectAccessReview": self._of_somebody,
            "SelfSubjectReview": self._who,
            "TokenReview": self._token,
        }

    def answer(self, request: Request) -> Answer | None:
        """The answer to a request for a review, None for any other request. Raises RefusalError."""
        found = review_at(request.path)
        if found is None:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        body = without_nulls(request.object())
        if not isinstance(body.get("spec", {}), dict):
            raise bad_request(f"{found.kind}: spec must be an object")
        metadata = {"namespace": request.path.split("/")[5]} if found.namespaced else {}
        head = {"kind": found.kind, "apiVersion": f"{found.group}/v1", "metadata": metadata}
        return json_answer(head | self._answers[found.kind](request, _without_empty(body.get("spec", {}))), 201)

    def _who(self, request: Request, _: Object) -> Object:
        return {"metadata": {"creationTimestamp": self._now()}, "status": {"userInfo": user_info(request.user)}}

    def _of_oneself(self, request: Request, spec: Object) -> Object:
        return {"spec": spec, "status": self._status(request.user, spec)}

    def _of_somebody(self, request: Request, spec: Object) -> Object:
        if not spec.get("user") and not spec.get("groups"):
            text = 'Invalid value: "": at least one of user or group must be specified'
            raise _invalid("spec.user", text)
        extra = {key: tuple(values) for key, values in spec.get("extra", {}).items()}
        user = User(spec.get("user", ""), tuple(spec.get("groups", ())), spec.get("uid", ""), extra)
        return {"spec": spec, "status": self._status(user, spec)}

    def _status(self, user: User, spec: Object) -> Object:
        decision = self._authorizer.decide(user, wish_of(spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}

    def _rules(self, request: Request, spec: Object) -> Object:
        namespace = spec.get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = list(self._authorizer.rules(request.user, namespace))
        keys = ("verbs", "apiGroups", "resources", "resourceNames")
        status = {
            "resourceRules": [
                {key: rule[key] for key in keys if key in rule} for rule in rules if rule.get("resources")
            ],
            "nonResourceRules": [
                {key: rule[key] for key in ("verbs", "nonResourceURLs")}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }
        return {"spec": {}, "status": status}

    def _token(self, _: Request, spec: Object) -> Object:
        user = self._authenticator.user_of_token(spec.get("token", ""))
        if user is None:
            return {"spec": spec, "status": {"user": {}, "error": "invalid bearer token"}}
        return {"spec": spec, "status": {"authenticated": True, "user": user_info(user), "audiences": [ISSUER]}}


def _without_empty(spec: Object) -> Object:
    """Texts that are empty are absent when they are shown again."""
    return {
        key: {name: each for name, each in value.items() if each != ""} if isinstance(value, dict) else value
        for key, value in spec.items()
    }


def review_at(path: str) -> Review | None:
    """The kind of review that is asked for at a path."""
    parts = path.strip("/").split("/")
    if parts[:1] != ["apis"]:
        return None
    for review in REVIEWS:
        where = ["namespaces", parts[4] if len(parts) > 4 else ""] if review.namespaced else []
        if parts[1:] == [review.group, "v1", *where, review.plural]:
            return review
    return None


def wish_of(spec: Object) -> Attributes:
    """The request that a review asks about. Raises RefusalError (422)."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        one = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid("spec.resourceAttributes", f"Invalid value: null: {one}")
    if resource is not None and path is not None:
        value = f'{{"Path":"{path.get("path", "")}","Verb":"{path.get("verb", "")}"}}'
        text = f"Invalid value: {value}: cannot be specified in combination with resourceAttributes"
        raise _invalid("spec.nonResourceAttributes", text)
    if resource is None:
        assert path is not None
        return Attributes(path.get("verb", ""), path=path.get("path", "") or "/")
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


def _invalid(field: str, message: str) -> RefusalError:
    """422; the real server does not say of which kind."""
    error = FieldError(field, "FieldValueInvalid", message)
    text = f'.{_AUTHORIZATION} "" is invalid: {field}: {message}'
    causes = [{"reason": error.reason, "message": error.message, "field": error.field}]
    return RefusalError(422, "Invalid", text, {"group": _AUTHORIZATION, "causes": causes})
