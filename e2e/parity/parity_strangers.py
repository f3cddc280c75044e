"""Clients other than the administrator: a side as a client with a token, a certificate, or nothing sees it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from clusters.api.certificates import KeyPair
from clusters.api.connection import Connection
from e2e.parity.sides import Side


@asynccontextmanager
async def stranger(side: Side, *, token: str = "", certificate: KeyPair | None = None) -> AsyncIterator[Side]:
    """The side for a client that trusts the cluster's authority, and shows the credentials given here."""
    context = ssl.create_default_context(cadata=authority(side.kubeconfig))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with Connection(side.url, tls=context, headers=headers) as http:
        yield replace(side, http=http)


def authority(kubeconfig: Path) -> str:
    """The certificate of a cluster's authority, from a kubeconfig (PEM)."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"]).decode()


async def account_token(side: Side, account: str, **spec: Any) -> str:
    """A token of a ServiceAccount of the case's namespace, as the API issues it; the account is made."""
    place = f"/api/v1/namespaces/{side.namespace}/serviceaccounts"
    await side.call("POST", place, body={"metadata": {"name": account}})
    answer = await side.call("POST", f"{place}/{account}/token", body={"spec": spec})
    assert answer.code == 201, answer.body
    return str(answer.body["status"]["token"])
