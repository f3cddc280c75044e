"""The refusals of an API server, one class for each thing that a caller may want to do about it."""

from __future__ import annotations

import re

from gpushare.errors import GpushareError


class ApiError(GpushareError):
    """A request that did not succeed. ``code`` is the HTTP status (0: no answer), ``reason`` the machine word.

    ``may_have_happened``: this answer does not show whether a write took effect.
    """

    may_have_happened = False

    def __init__(self, message: str, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotFoundError(ApiError):
    """404: there is no such object."""


class ConflictError(ApiError):
    """409: already bound, or changed since."""


class GoneError(ApiError):
    """410, as a status or as an event of a watch: the resourceVersion is too old, list again.

    ``next_page`` is the token with which a list goes on nevertheless, with the objects as they are now.
    """

    next_page: str = ""


class InvalidError(ApiError):
    """400 or 422: the request makes no sense."""


class UnauthorizedError(ApiError):
    """401: the login is not accepted."""


class ForbiddenError(ApiError):
    """403: refused by admission (a namespace that ends, a quota)."""


class MissingRightError(ForbiddenError):
    """403 of the authorizer: a role lacks a right."""


class TooManyRequestsError(ApiError):
    """429: later; ``retry_after_seconds`` is what the server asks for."""

    retry_after_seconds: float = 1.0


class ServerError(ApiError):
    """5xx: it may have happened nevertheless."""

    may_have_happened = True


class UnreachableError(ApiError):
    """No answer; it may have happened if the request was sent."""

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


# Refusals of a write: this object may not be changed so (a role, an admission webhook, a webhook that is away). Others may.
REFUSALS = (InvalidError, ForbiddenError, TooManyRequestsError, ServerError)

_BY_CODE: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


# The form of the authorizer's refusals, which name a user; those of admission name none.
_NO_RIGHT = re.compile(r'\bUser ".*" cannot ')

_HINTS: dict[type[ApiError], str] = {
    UnauthorizedError: " (are the token or certificates of the kubeconfig still valid?)",
    MissingRightError: " (the role of this ServiceAccount lacks the right; see clusters/deploy)",
}


def error_for(code: int, reason: str, message: str, what: str) -> ApiError:
    """The error for a refusal; ``what`` is the request, as method and path."""
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if kind is ForbiddenError and _NO_RIGHT.search(message):
        kind = MissingRightError
    return kind(f"{what}: {code} {message or reason or 'no reason given'}{_HINTS.get(kind, '')}", code, reason)
