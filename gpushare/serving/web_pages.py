"""Which requests a web page may have made that another site serves: its reader's browser reaches ports that the site does not.

A browser names the page's site in ``Origin``, but not for a page whose own name was made to point here (DNS rebinding): that one is
seen by ``Host``. It sends a body that calls itself JSON to another site only after a question that we never answer with yes.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

from gpushare.serving.http_connection import TEXT, Answer, HttpRequest

_JSON: Final = "application/json"
# No site on the internet has a name below these (RFC 6761, ICANN's internal), and those of a cluster are Kubernetes' own.
_LOCAL: Final = (".localhost", ".internal", ".svc", ".svc.cluster.local")

_FOREIGN_HOST: Final = Answer(403, TEXT, b"this Host is not expected; --allowed-hosts names more\n")
_FOREIGN_ORIGIN: Final = Answer(403, TEXT, b"pages of another site may not ask; --allowed-hosts names more\n")
_NOT_JSON: Final = Answer(415, TEXT, b"the body must have the Content-Type application/json\n")


def refusal(request: HttpRequest, service: str, allowed: Collection[str], *, is_tls: bool = False) -> Answer | None:
    """Why this is not answered; None if it is.

    ``service`` is the Service's name with its namespace; ``allowed`` are more names by which this server is called. Over TLS any
    name will do: our certificate is for none that a site on the internet has.
    """
    host = _name(request.host)
    if host and not is_tls and not _is_ours(host, service) and host not in allowed:
        return _FOREIGN_HOST
    if request.origin:
        origin = request.origin.lower().partition("://")[2]
        if not origin or (origin != request.host.lower() and _name(origin) not in allowed):
            return _FOREIGN_ORIGIN
    if request.method == "POST" and request.content_type.partition(";")[0].strip().lower() not in ("", _JSON):
        return _NOT_JSON
    return None


def _name(host: str) -> str:
    """Without its port, its brackets and a dot at its end, in small letters."""
    name = host.lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return name.removesuffix(".")


def _is_ours(name: str, service: str) -> bool:
    """An address, a name of one label or of this machine or cluster: none that a site on the internet can have."""
    if "." not in name or name == service or name.endswith(_LOCAL):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
