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


_CASES: Final = yaml.safe_load(Path(__file__).with_name("kubeconfig_cases.yaml").read_text())


@dataclass
class RecordingServer:
    """A server that records its clients, and the folder of kubeconfigs for it."""

    folder: Path
    url: str = ""
    seen: list[list[Any]] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
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
        if "exec" in fields:
            plugin = _PLUGIN | fields["exec"]
            answers = {"command": "/bin/sh", "args": ["-c", 'printf %s "$0"', plugin.pop("answer", "")]}
            return {"exec": plugin | (answers if "answer" in fields["exec"] else {})}

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
    pair = {"clientCertificateData": "client.pem", "clientKeyData": "client.key"}
    status = {key: (folder / name).read_text() for key, name in pair.items()}
    answer = json.dumps({"apiVersion": _V1, "kind": "ExecCredential", "status": status})
    (folder / "certificate").write_text(f"#!/bin/sh\ncat <<'E'\n{answer}\nE\n")
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


@pytest.mark.parametrize("name", _CASES["fields"])
async def test_each_field_is_obeyed_as_kubectl_obeys_it(site: RecordingServer, binaries: Binaries, name: str) -> None:
    """Our program sends the path, login, impersonation, certificate and server name that kubectl sends, or both refuse."""
    case = _CASES["fields"][name]
    theirs, ours = await both(site, binaries, str(site.write("one", case["user"], case.get("cluster", {}))))

    assert ours == theirs


@pytest.mark.parametrize("case", _CASES["files"], ids=str)
async def test_files_are_merged_as_kubectl_merges_them(
    site: RecordingServer, binaries: Binaries, case: dict[str, Any]
) -> None:
    """The first file that has an entry or a current context counts; missing and empty files count for nothing."""
    for name in ("first", "second"):
        site.write(name, {"token": f"of-the-{name}"}, {}, **case.get(name, {}))
    plain = yaml.safe_dump(json.loads((site.folder / "first.json").read_text()))
    (site.folder / "yaml.json").write_text(plain)
    (site.folder / "folder.json").mkdir(exist_ok=True)
    (site.folder / "broken.json").write_text("clusters: [")
    theirs, ours = await both(site, binaries, ":".join(str(site.folder / f"{part}.json") for part in case["files"]))

    assert ours == theirs
