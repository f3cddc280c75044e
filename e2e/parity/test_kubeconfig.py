"""kubectl and our programs read the same kubeconfig alike: the request that a recording server gets, or a refusal."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import trustme
import yaml
from aiohttp import web

from clusters.controlplane.binaries import Binaries

_INSPECT: Final = Path(sys.executable).parent / "kubectl-inspect-gpushare"
_SECONDS: Final = 60
_V1: Final = "client.authentication.k8s.io/v1"
_PLUGIN: Final = {"apiVersion": _V1, "command": "./login", "interactiveMode": "Never"}
_LOGIN: Final = """#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-the-plugin"}}'
"""


def _says(answer: object, **changes: Any) -> dict[str, Any]:
    """A user with a login plugin that answers this."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return {"exec": _PLUGIN | {"command": "/bin/sh", "args": ["-c", 'printf %s "$0"', text]} | changes}


def _status(**status: Any) -> dict[str, Any]:
    return {"apiVersion": _V1, "kind": "ExecCredential", "status": status}


_CERTIFICATE: Final = {"client-certificate": "client.pem", "client-key": "client.key"}
_TOKEN: Final = {"token": "t"}
# Fields of the user, and what is laid over those of the cluster; {url} and {name} are filled in; None removes one.
# Left out: without any login kubectl asks for a name on the terminal, and our programs ask the server without one. To a server of
# this machine in plain HTTP they send a login, and kubectl does not.
_CASES: Final[Mapping[str, tuple[Any, Any]]] = {
    "token": (_TOKEN, {}),
    "token file": ({"tokenFile": "token"}, {}),
    "token and its file": ({"token": "t", "tokenFile": "token"}, {}),
    "token beside a missing file": ({"token": "t", "tokenFile": "missing"}, {}),
    "password": ({"username": "u", "password": "p"}, {}),
    "password and token": ({"username": "u", "password": "p", "token": "t"}, {}),
    "certificate": (_CERTIFICATE, {}),
    "certificate as data": ({"client-certificate-data": "<client.pem>", "client-key-data": "<client.key>"}, {}),
    "certificate and token": (_CERTIFICATE | _TOKEN, {}),
    "as": (_TOKEN | {"as": "jane"}, {}),
    "as all": (_TOKEN | {"as": "j", "as-uid": "1", "as-groups": ["a", "b"], "as-user-extra": {"s/x": ["v", "w"]}}, {}),
    "plugin": ({"exec": _PLUGIN}, {}),
    "plugin missing": ({"exec": _PLUGIN | {"command": "./no-such-login"}}, {}),
    "plugin of v1beta1": (_says({**_status(token="t"), "apiVersion": f"{_V1}beta1"}, apiVersion=f"{_V1}beta1"), {}),
    "plugin without a mode": (_says(_status(token="t"), interactiveMode=None), {}),
    "plugin that needs a terminal": (_says(_status(token="t"), interactiveMode="Always"), {}),
    "plugin answers a token": (_says(_status(token="t")), {}),
    "plugin answers no JSON": (_says("token"), {}),
    "plugin answers an empty token": (_says(_status(token="")), {}),
    "plugin answers YAML": (_says(f"apiVersion: {_V1}\nkind: ExecCredential\nstatus: {{token: t}}\n"), {}),
    "auth provider": ({"auth-provider": {"name": "gcp"}}, {}),
    "unknown fields": (_TOKEN | {"odd": 1}, {"odd": 1}),
    "authority as data": (_TOKEN, {"certificate-authority": None, "certificate-authority-data": "<ca.pem>"}),
    "authority of another": (_TOKEN, {"certificate-authority": "other.pem"}),
    "authority unknown": (_TOKEN, {"certificate-authority": None}),
    "insecure": (_TOKEN, {"certificate-authority": None, "insecure-skip-tls-verify": True}),
    "insecure and authority": (_TOKEN, {"insecure-skip-tls-verify": True}),
    "server name": (_TOKEN, {"tls-server-name": "api.example"}),
    "server name of another": (_TOKEN, {"tls-server-name": "other.example"}),
    "server with a path": (_TOKEN, {"server": "{url}/k8s/clusters/c"}),
    "server without a scheme": (_TOKEN, {"server": "{name}"}),
    "proxy that is away": (_TOKEN, {"proxy-url": "http://127.0.0.1:1"}),
    "authority among others": (_TOKEN, {"certificate-authority": "bundle.pem"}),
    "plugin answers a certificate": ({"exec": _PLUGIN | {"command": "./certificate"}}, {}),
}  # fmt: skip


@dataclass
class RecordingServer:
    """A server that records its clients, and the folder of kubeconfigs for it."""

    folder: Path
    url: str = ""
    seen: list[list[Any]] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """An empty list."""
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        subject = [value for part in (peer or {}).get("subject", ()) for _, value in part]
        who = [
            (name.title(), text) for name, text in request.headers.items() if name.title().startswith("Impersonate-")
        ]
        if request.path.endswith("/nodes"):
            self.seen.append([request.path, request.headers.get("Authorization"), sorted(who), subject])
        return web.json_response(
            {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
        )

    def write(self, name: str, user: Any, cluster: Any, **more: Any) -> Path:
        """A kubeconfig; ``<file>`` is its content as data."""
        whole = {"server": self.url, "certificate-authority": "ca.pem", **cluster}
        words = {"url": self.url, "name": self.url.removeprefix("https://")}
        whole = {
            key: value.format(**words) if key == "server" else value
            for key, value in whole.items()
            if value is not None
        }
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": self._with_data(whole)}],
            "users": [{"name": name, "user": self._with_data(user)}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }  # fmt: skip
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(document | more))
        return path

    def _with_data(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        def content(value: Any) -> Any:
            if isinstance(value, str) and value.startswith("<"):
                return base64.b64encode((self.folder / value.strip("<>")).read_bytes()).decode()
            return value

        return {key: content(value) for key, value in fields.items()}

    async def ask(self, argv: list[Any], kubeconfig: str) -> list[Any] | str:
        """The request that a program sends with a kubeconfig; "refused" if it sends none."""
        self.seen.clear()
        self.server_names.clear()
        environment = {"KUBECONFIG": kubeconfig, "HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        pipe = asyncio.subprocess.PIPE
        program = await asyncio.create_subprocess_exec(
            *map(str, argv), env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd="/"
        )
        async with asyncio.timeout(_SECONDS):
            _, errors = await program.communicate()
        assert b"Traceback" not in errors, errors.decode()
        return [*self.seen[0], self.server_names[-1:]] if self.seen else "refused"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RecordingServer]:
    """A server with TLS, which asks for a client's certificate."""
    site = RecordingServer(tmp_path_factory.mktemp("kubeconfigs"))
    authority, folder = trustme.CA(), site.folder
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    client = authority.issue_cert("jane@example.org", common_name="jane")
    client.cert_chain_pems[0].write_to_path(folder / "client.pem")
    client.private_key_pem.write_to_path(folder / "client.key")
    (folder / "token").write_text("of-the-file\n")
    (folder / "login").write_text(_LOGIN)
    (folder / "login").chmod(0o700)
    (folder / "bundle.pem").write_bytes(
        (folder / "other.pem").read_bytes() + b"# ours\n" + (folder / "ca.pem").read_bytes()
    )
    pair = {
        "clientCertificateData": (folder / "client.pem").read_text(),
        "clientKeyData": (folder / "client.key").read_text(),
    }
    (folder / "certificate").write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps(_status(**pair))}\nE\n")
    (folder / "certificate").chmod(0o700)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "api.example").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.sni_callback = lambda _, name, __: site.server_names.append(name)
    app = web.Application()
    app.router.add_get("/{path:.*}", site.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        site.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield site
    finally:
        await runner.cleanup()


async def both(site: RecordingServer, binaries: Binaries, kubeconfig: str) -> tuple[Any, Any]:
    """The request of kubectl, and that of ``kubectl inspect gpushare``."""
    theirs = await site.ask([binaries["kubectl"], "get", "--raw", "/api/v1/nodes", "--request-timeout=20s"], kubeconfig)
    return theirs, await site.ask([_INSPECT, "--request-timeout=20s"], kubeconfig)


@pytest.mark.parametrize("name", _CASES)
async def test_each_field_is_obeyed_as_kubectl_obeys_it(site: RecordingServer, binaries: Binaries, name: str) -> None:
    """Our program sends the path, login, impersonation, certificate and server name that kubectl sends, or both refuse."""
    user, cluster = _CASES[name]
    theirs, ours = await both(site, binaries, str(site.write("one", user, cluster)))

    assert ours == theirs


_FIRST, _SECOND = {"token": "of-the-first"}, {"token": "of-the-second"}


@pytest.mark.parametrize(
    ("parts", "first", "second"),
    [
        (["first", "second"], {}, {}),
        (["second", "first"], {}, {}),
        (["missing", "first"], {}, {}),
        (["first", "second"], {"current-context": ""}, {}),
        (
            ["first", "second"],
            {},
            {"contexts": [{"name": "first", "context": {"cluster": "second", "user": "second"}}]},
        ),
        (["first", "second"], {"users": [{"name": "second", "user": {"token": "of-another"}}]}, {}),
        (["first", "second"], {"current-context": "second", "users": [{"name": "second", "user": {"token": "x"}}]}, {}),
        (["first", "broken"], {}, {}),
        (["folder"], {}, {}),
        (["yaml"], {}, {}),
        (
            ["first"],
            {"users": [{"name": "first", "user": {"token": "a"}}, {"name": "first", "user": {"token": "b"}}]},
            {},
        ),
        (["first"], {"contexts": [{"name": "first", "context": {"cluster": "first", "user": "absent"}}]}, {}),
    ],
)
async def test_files_are_merged_as_kubectl_merges_them(
    site: RecordingServer, binaries: Binaries, parts: list[str], first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The first file that has an entry or a current context counts; missing and empty files count for nothing."""
    site.write("first", _FIRST, {}, **first)
    site.write("second", _SECOND, {}, **second)
    plain = yaml.safe_dump(json.loads((site.folder / "first.json").read_text()))
    (site.folder / "yaml.json").write_text(plain)
    (site.folder / "folder.json").mkdir(exist_ok=True)
    (site.folder / "broken.json").write_text("clusters: [")
    theirs, ours = await both(site, binaries, ":".join(str(site.folder / f"{part}.json") for part in parts))

    assert ours == theirs
