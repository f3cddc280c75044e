"""Where the API server is and who we are: kubeconfig or in-cluster, by a library.

lightkube reads certificates, tokens, token files (read again when they rotate) and exec plugins. What it does not:
exec plugins of ``client.authentication.k8s.io/v1``, whose answer has the token in the same place as v1beta1's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gpushare.errors import UsageError
from gpushare.kube.client import ApiClient

# A request without its own limit, in seconds; a watch has another.
DEFAULT_TIMEOUT_SECONDS: Final = 10.0
_EXEC_V1: Final = "client.authentication.k8s.io/v1"
_EXEC_V1BETA1: Final = "client.authentication.k8s.io/v1beta1"


def connect(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    service_account: str = SERVICE_ACCOUNT,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> ApiClient:
    """A client for the kubeconfig, else for the cluster that we run in, else for the user's own kubeconfig.

    ``kubeconfig`` may name several files, as KUBECONFIG does: the first that exists is used. Where none of them
    exists and a service account is mounted we run in-cluster: the original's manifests set a KUBECONFIG that is not
    there. Raises UsageError.
    """
    config = _select(kubeconfig, context, service_account)
    params = ConnectionParams(timeout=httpx2.Timeout(timeout_seconds), http2=False)
    try:
        return ApiClient(AsyncClient(config, params))
    except (ConfigError, OSError, ValueError) as error:
        raise UsageError(f"cannot use the kubeconfig's context {config.context_name!r}: {error}") from error


def _select(kubeconfig: str | None, context: str | None, service_account: str) -> SingleConfig:
    named = [Path(part).expanduser() for part in (kubeconfig or "").split(":") if part]
    existing = [path for path in named if path.is_file()]
    try:
        if not existing and Path(service_account, "token").is_file():
            found = KubeConfig.from_service_account(service_account)
        else:
            found = KubeConfig.from_file((existing or named or [Path("~/.kube/config").expanduser()])[0])
        config = found.get(context)
    except (ConfigError, KeyError, TypeError, OSError, msgspec.ValidationError, yaml.YAMLError) as error:
        raise UsageError(f"cannot read the kubeconfig: {error}; set --kubeconfig or KUBECONFIG") from error
    if config is None:
        raise UsageError("the kubeconfig has no current context; pass --context")
    return config._replace(user=_usable(config.user))


def _usable(user: User | None) -> User:
    """The user as lightkube can take it: anonymous where there is none, exec plugins of v1 as those of v1beta1."""
    if user is None:
        return User()
    if user.exec is not None and user.exec.apiVersion == _EXEC_V1:
        return msgspec.structs.replace(user, exec=msgspec.structs.replace(user.exec, apiVersion=_EXEC_V1BETA1))
    return user
