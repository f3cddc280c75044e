"""The way to the API server and our identity: from kubeconfig, or in-cluster.

``kubeconfig`` reads the files by kubectl's rules, ``login`` makes the headers of a request, and ``tls`` reads certificates again
when they change. Here are the choice between them, and the proxy.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yarl

from gpushare.errors import UsageError
from gpushare.kube import kubeconfig
from gpushare.kube.client import ApiClient
from gpushare.kube.http_pool import HttpPool
from gpushare.kube.kubeconfig import Access, Cluster, User
from gpushare.kube.login import Login
from gpushare.kube.tls import followed

_LOG = logging.getLogger(__name__)

# A request without its own limit, in seconds; a watch has another.
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
# Both have the proxy look names up, as in Go.
_SOCKS: Final = ("socks5", "socks5h")
DEFAULT_KUBECONFIG: Final = "~/.kube/config"
# Where a kubelet mounts a pod's token and the authority of its cluster.
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def connect(
    files: str | None,
    context: str | None = None,
    *,
    service_account: str = SERVICE_ACCOUNT,
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
) -> ApiClient:
    """A client for the kubeconfig ``files``, else for the cluster that we run in, else for the user's own kubeconfig.

    There may be several files, as in KUBECONFIG; those that exist are merged. If none of them exists
    and a service account is mounted we run in-cluster: the original's manifests set a KUBECONFIG that is not there.
    ``timeout_seconds`` limits each wait for the server; None waits for ever. Raises UsageError.
    """
    sources = _sources(files, service_account)
    is_outside = bool(sources)
    read = partial(kubeconfig.read, sources, context) if is_outside else partial(_in_cluster, service_account)
    access = read()
    server = access.cluster.server
    user = access.user if _sends_login(server) else User()
    try:
        tls = followed(read, sources)
        return ApiClient(
            HttpPool(
                server,
                tls,
                Login(user, access.cluster, tls.present),
                proxy=proxy_of(access.cluster, is_outside=is_outside),
                timeout_seconds=timeout_seconds,
            )
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot use the kubeconfig's context {access.context!r}: {error}") from error


def default_namespace(files: str | None, context: str | None = None, *, service_account: str = SERVICE_ACCOUNT) -> str:
    """The namespace of requests that name none, as kubectl has it: the context's, or the pod's own. Raises UsageError."""
    if sources := _sources(files, service_account):
        return kubeconfig.read(sources, context).namespace or "default"
    try:
        return Path(service_account, "namespace").read_text(encoding="utf-8").strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


def _sources(files: str | None, service_account: str) -> list[Path]:
    """The kubeconfig files; none if the service account of the cluster that we run in is used."""
    named = [Path(part).expanduser() for part in (files or "").split(":") if part]
    # A folder or a file that may not be read is an error, and no reason to log in by another way.
    is_outside = any(map(_exists, named)) or not Path(service_account, "token").is_file()
    return named or [Path(DEFAULT_KUBECONFIG).expanduser()] if is_outside else []


def _exists(path: Path) -> bool:
    """Is something there, or may not be looked at?"""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _in_cluster(service_account: str) -> Access:
    """By what every pod is given. Raises UsageError."""
    try:
        # Variables of the kubelet, not settings of ours.
        host, port = (os.environ[f"KUBERNETES_SERVICE_{name}"] for name in ("HOST", "PORT"))  # noqa: TID251
    except KeyError as error:
        raise UsageError(f"cannot use the service account in {service_account}: {error} is missing") from error
    host = f"[{host}]" if ":" in host else host
    cluster = Cluster(f"https://{host}:{port}", certificate_authority=f"{service_account}/ca.crt")
    return Access("in-cluster", cluster, User(token_file=f"{service_account}/token"))


def proxy_of(cluster: Cluster, *, is_outside: bool) -> str | None:
    """That of the kubeconfig, else that of the environment, which is for the world outside. Raises ValueError for another kind.

    Both are read as Go's ``net/http`` and so kubectl reads them; ALL_PROXY is none of its variables.
    """
    proxy, parts = cluster.proxy_url, urlsplit(cluster.server)
    if not proxy and is_outside and not _is_loopback(cluster.server):
        port = parts.port or _PORTS.get(parts.scheme, 0)
        if not _is_spared((parts.hostname or "").lower(), str(port), _variable("NO_PROXY")):
            proxy = _variable("HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY")
            proxy = proxy if not proxy or "://" in proxy else f"http://{proxy}"
    return _checked(proxy) if proxy else None


def _variable(name: str) -> str:
    # Variables of the person's machine, not settings of ours.
    return os.environ.get(name) or os.environ.get(name.lower(), "")  # noqa: TID251


def _checked(proxy: str) -> str:
    """The URL of a proxy. Raises ValueError without the URL, which may have a password."""
    try:
        url = yarl.URL(proxy)
        has_place = bool(url.host and (url.port or url.scheme in _SOCKS))
    except ValueError:
        raise ValueError("the URL of its proxy has no host and port that can be read") from None
    if "://" in proxy and url.scheme not in ("http", "https", *_SOCKS):
        raise ValueError(f"its proxy is of the kind {url.scheme!r}, and only http, https and socks5 are supported")
    if "://" not in proxy or not has_place:
        raise ValueError("the URL of its proxy must be http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
    return str(url)


def _is_spared(host: str, port: str, spared: str) -> bool:
    """Does NO_PROXY name the server, as Go's ``httpproxy`` reads it?

    Its words are ``*``, networks, and addresses and domains with a port or without: ``a.b`` is that host and all below it, ``.a.b``
    and ``*.a.b`` are those below it.
    """
    address = _address(host)
    for word in (one.strip().lower() for one in spared.split(",")):
        name, of_port = _apart(word)
        is_named = _is_in(address, name) if address else _is_below(host, name)
        if word == "*" or (is_named and of_port in ("", port)):
            return True
    return False


def _apart(word: str) -> tuple[str, str]:
    """The host and the port of a word of NO_PROXY; an IPv6 address with a port is in brackets."""
    name, colon, port = word.rpartition(":")
    if not colon or (":" in name and not name.endswith("]")):
        name, port = word, ""
    return name.strip("[]"), port


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    with contextlib.suppress(ValueError):
        return address in ipaddress.ip_network(network, strict=False)
    return False


def _is_below(host: str, domain: str) -> bool:
    domain = domain.removeprefix("*")
    below = domain if domain.startswith(".") else f".{domain}"
    return below != "." and (host == domain or host.endswith(below))


def _sends_login(server: str) -> bool:
    """Is the login sent there? kubectl sends none in plain HTTP, which every host on the way can read; here loopback is exempt."""
    if urlsplit(server).scheme == "https" or _is_loopback(server):
        return True
    _LOG.warning("no login is sent to %s, because it speaks plain HTTP; use https", server)
    return False


def _is_loopback(server: str) -> bool:
    """Is the server on this machine? A proxy for it makes no sense, and Go's client asks none."""
    host = urlsplit(server).hostname or ""
    address = _address(host)
    return address.is_loopback if address else host == "localhost"
