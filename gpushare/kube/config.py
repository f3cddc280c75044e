"""The API server's address and our identity: from kubeconfig or in-cluster, through lightkube.

lightkube reads certificates, tokens and token files (read again when they rotate); ``tls`` reads certificates again when they
change. The rest is added here: several files in KUBECONFIG, kubectl's choice of a login (``login``), the name by
which a server's certificate is verified, proxies of the kubeconfig, and no proxy for loopback. Fields that kubectl refuses, or that
nothing here obeys, are refused by name (``kubeconfig.check_fields``).
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
import msgspec
from lightkube.config.client_adapter import user_auth
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gpushare.errors import UsageError
from gpushare.kube.client import ApiClient, Http
from gpushare.kube.kubeconfig import check_fields, content_of, load, server_of
from gpushare.kube.login import Login, login_of
from gpushare.kube.tls import followed

_LOG = logging.getLogger(__name__)

# A request without its own limit, in seconds; a watch has another.
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
# How long a connection without requests is kept, in seconds. Longer than we pause between any two, as a TLS handshake costs
# more than all the rest of a request; shorter than an API server keeps it (90 s).
_IDLE_SECONDS: Final = 60.0
# The most connections, and all are kept: with httpx's own limits (100, of which 20 are kept) 64 binds spend a third of their
# processor time on handshakes and on looking through idle connections. The price: of an API server that takes a second for a
# write no more than 28 pods a second are bound (four connections are watches); the others wait for their turn.
_CONNECTIONS: Final = 32
DEFAULT_KUBECONFIG: Final = "~/.kube/config"


def connect(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    service_account: str = SERVICE_ACCOUNT,
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS,
    sends_much: bool = False,
) -> ApiClient:
    """A client for the kubeconfig, else for the cluster that we run in, else for the user's own kubeconfig.

    ``kubeconfig`` may name several files, as KUBECONFIG does; those that exist are merged. Where none of them exists
    and a service account is mounted we run in-cluster: the original's manifests set a KUBECONFIG that is not there.
    ``timeout_seconds`` limits each wait for the server; None waits for ever. A program that ``sends_much`` pays for the leaner
    client with its memory. Raises UsageError.
    """
    named = [Path(part).expanduser() for part in (kubeconfig or "").split(":") if part]
    # A folder or a file that may not be read is an error, and no reason to log in by another way.
    existing = [path for path in named if _exists(path)]
    proxy = server_name = login = None
    reread: Callable[[], SingleConfig]
    if not existing and Path(service_account, "token").is_file():
        config, trust_env = _in_cluster(service_account), False
        login = Login(user_auth(config.user or User()))
        sources, reread = [], partial(_in_cluster, service_account)
    else:
        sources = existing or named or [Path(DEFAULT_KUBECONFIG).expanduser()]
        config, cluster, user = _from_files(sources, context)
        proxy, server_name = (str(cluster.get(name) or "") or None for name in ("proxy-url", "tls-server-name"))
        if _sends_login(config.cluster.server):
            login = login_of(user, cluster)
        trust_env = not _is_loopback(config.cluster.server)

        def reread() -> SingleConfig:
            return _from_files(sources, context)[0]

    try:
        tls = followed(reread, sources, trust_env=trust_env, server_name=server_name)
        if sends_much and proxy is None and not (trust_env and getproxies()):
            return ApiClient(_lean(config, tls, login, timeout_seconds))
        http = httpx2.AsyncClient(
            base_url=config.cluster.server,
            verify=tls,
            auth=login,
            timeout=httpx2.Timeout(timeout_seconds),
            limits=httpx2.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
            ),
            proxy=proxy,
            trust_env=trust_env,
        )
    # ImportError: the environment names a SOCKS proxy and the library for it is not there.
    except (ConfigError, ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
        raise UsageError(f"cannot use the kubeconfig's context {config.context_name!r}: {error}") from error
    return ApiClient(http)


def _lean(config: SingleConfig, tls: ssl.SSLContext, login: Login | None, timeout_seconds: float | None) -> Http:
    # Here, as it is memory that others need not have.
    from gpushare.kube.lean_http import LeanHttp

    return LeanHttp(
        config.cluster.server,
        tls,
        login,
        timeout_seconds=timeout_seconds,
        connections=_CONNECTIONS,
        idle_seconds=_IDLE_SECONDS,
    )


def _exists(path: Path) -> bool:
    """Is something there, or may not be looked at?"""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _in_cluster(service_account: str) -> SingleConfig:
    """The configuration that every pod is given. Raises UsageError."""
    try:
        found = KubeConfig.from_service_account(service_account).get()
    except (ConfigError, KeyError, OSError) as error:
        raise UsageError(f"cannot use the service account in {service_account}: {error} is missing") from error
    assert found is not None, "an in-cluster configuration always has its one context"
    return found


def _from_files(paths: list[Path], context: str | None) -> tuple[SingleConfig, dict[str, Any], dict[str, Any]]:
    """The configuration of a context, and all fields of its cluster and of its user. Raises UsageError."""
    missing = next((path for path in paths if not _exists(path)), None)
    if missing is not None:
        raise UsageError(f"there is no kubeconfig {missing}; pass --kubeconfig or set KUBECONFIG")
    document = load(paths)
    named = context or document["current-context"]
    if not named:
        raise UsageError(f"the kubeconfig {paths[0]} has no current context; pass --context")
    try:
        config = KubeConfig.from_dict(document, fname=paths[0]).get(named)
    except KeyError as error:
        raise UsageError(f"the context {named!r} of the kubeconfig names {error}, which is not in it") from error
    except (ConfigError, TypeError, msgspec.ValidationError) as error:
        raise UsageError(f"cannot use the kubeconfig {paths[0]}: {error}") from error
    assert config is not None, "a context was named"
    cluster = content_of(document, "clusters", config.context.cluster)
    user = content_of(document, "users", config.context.user or "")
    check_fields(cluster, user, named)
    config.cluster.server = server_of(cluster)
    return config._replace(user=config.user or User()), cluster, user


def _sends_login(server: str) -> bool:
    """Is the login sent there? kubectl sends none in plain HTTP, which every host on the way can read; here loopback is exempt."""
    if urlsplit(server).scheme == "https" or _is_loopback(server):
        return True
    _LOG.warning("no login is sent to %s, because it speaks plain HTTP; use https", server)
    return False


def _is_loopback(server: str) -> bool:
    """Is the server on this machine? A proxy for it makes no sense, and Go's client asks none."""
    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
