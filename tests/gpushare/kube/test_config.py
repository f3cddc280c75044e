"""Promises of the connection: the kubeconfig that counts, and the credentials. Real files, plugins and TLS."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from gpushare.errors import UsageError
from gpushare.kube import config, http_pool
from gpushare.kube.api_errors import UnauthorizedError, UnreachableError
from gpushare.kube.client import ApiClient
from gpushare.kube.kubeconfig import Cluster
from tests.gpushare.kube.scripted_api import Answer, Call, ScriptedApi, listen, listing, status
from tests.servers import until

Write = Callable[..., str]
Connect = Callable[..., ApiClient]


def free_port() -> int:
    """Nothing listens there now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A folder without a service account."""
    return str(tmp_path / "no-service-account")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a kubeconfig of one cluster, user and context; its path."""

    def written(server: str, user: dict[str, Any] | None = None, name: str = "one", **cluster: Any) -> str:
        document = {
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": server, **cluster}}],
            "users": None if user is None else [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, **({"user": name} if user else {})}}],
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return written


@pytest.fixture
def connect(write: Write, nowhere: str) -> Connect:
    """Writes a kubeconfig, and connects by it."""
    return lambda *fields, **more: config.connect(write(*fields, **more), service_account=nowhere)


def answer_with(*tokens: str) -> ScriptedApi:
    """Takes these tokens, refuses others with 401."""

    def respond(call: Call) -> Answer:
        known = call.headers.get("authorization", "").removeprefix("Bearer ") in tokens
        return listing("1") if known else Answer(status(401, "Unauthorized"), 401)

    return ScriptedApi(respond)


async def list_once(client: ApiClient) -> None:
    try:
        await client.list_nodes()
    finally:
        await client.close()


_ANSWER = """
import json
def answer(token):
    print(json.dumps({"apiVersion": %r, "kind": "ExecCredential", "status": {"token": token}}))
"""


def plugin(folder: Path, prints: str, version: str = "v1") -> dict[str, Any]:
    """A login plugin: a Python program, which may call ``answer`` with a token."""
    program, version = folder / "login.py", f"client.authentication.k8s.io/{version}"
    program.write_text(_ANSWER % version + prints)
    return {
        "exec": {
            "apiVersion": version,
            "interactiveMode": "IfAvailable",
            "command": sys.executable,
            "args": [str(program)],
            "env": [{"name": "OWN", "value": "yes"}],
        }
    }


async def test_a_user_is_not_needed(connect: Connect) -> None:
    """A kubeconfig needs no users, because kubectl writes null for none. The request is then anonymous."""
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api) as url:
        await list_once(connect(url))

    assert "authorization" not in api.calls[0].headers


async def test_no_proxy_for_loopback(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the environment is for the world outside."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with listen(ScriptedApi(lambda call: listing("1"))) as url:
        await list_once(connect(url))


async def test_the_proxy_of_the_kubeconfig_is_used(connect: Connect) -> None:
    """A request for a cluster that only the proxy can reach arrives at the proxy."""
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api) as url:
        await list_once(connect("http://cluster.invalid", **{"proxy-url": url}))

    assert api.calls[0].headers["host"] == "cluster.invalid"


async def test_a_token_file_is_read_again_when_it_rotates(connect: Connect, tmp_path: Path) -> None:
    """A token file is read again when it rotates. Its path is relative to the kubeconfig, not to the working folder."""
    (tmp_path / "token").write_text("first\n")
    api = answer_with("first")
    async with listen(api) as url:
        client = connect(url, {"tokenFile": "token"})
        await client.list_nodes()
        api.respond = answer_with("second").respond
        (tmp_path / "token").write_text("second\n")
        await list_once(client)

    assert [call.headers["authorization"] for call in api.calls] == ["Bearer first", "Bearer first", "Bearer second"]


async def test_a_token_file_that_is_gone_is_an_error_of_ours(connect: Connect) -> None:
    """In the middle of a request, and nothing is sent."""
    api = answer_with("x")
    async with listen(api) as url:
        client = connect(url, {"tokenFile": "absent"})
        with pytest.raises(UnauthorizedError, match="absent"):
            await list_once(client)

    assert api.calls == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_exec_plugin_gives_the_token(connect: Connect, tmp_path: Path, version: str) -> None:
    """An exec plugin gets its own variables and the protocol's, and is asked again when its token is refused."""
    program = f"""
import os, pathlib
told = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert told["kind"] == "ExecCredential" and told["apiVersion"].endswith("/{version}"), told
assert os.environ["OWN"] == "yes"
count = pathlib.Path({str(tmp_path / "count")!r})
count.write_text((count.read_text() if count.exists() else "") + "x")
answer(count.read_text())
"""
    api = answer_with("x")
    async with listen(api) as url:
        client = connect(url, plugin(tmp_path, program, version))
        await client.list_nodes()
        await client.list_nodes()
        api.respond = answer_with("xx").respond
        await list_once(client)

    assert [call.headers["authorization"] for call in api.calls] == [
        "Bearer x",
        "Bearer x",
        "Bearer x",
        "Bearer xx",
    ]


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit('no network')",
        "print('hunter2')",
        "print('{}')",
        "print('{\"status\":null}')",
        "print('hunter2: [')",
        "answer('')",
        "answer(7)",
        "print('[' * 5000)",
        'print(\'{"apiVersion":"hunter2","kind":"ExecCredential","status":{"token":"t"}}\')',
    ],
)
async def test_an_exec_plugin_that_fails_is_an_error_of_ours(connect: Connect, tmp_path: Path, program: str) -> None:
    """Whatever it does; and what it prints is not shown."""
    async with listen(answer_with("x")) as url:
        client = connect(url, plugin(tmp_path, program))
        with pytest.raises(UnauthorizedError, match="plugin") as caught:
            await list_once(client)

    assert "hunter2" not in str(caught.value)
    assert not caught.value.may_have_happened


async def test_an_exec_plugin_that_is_missing_is_an_error_of_ours(connect: Connect, tmp_path: Path) -> None:
    """The error names the program."""
    user = plugin(tmp_path, "")
    user["exec"]["command"] = "./no-such-login"
    async with listen(answer_with("x")) as url:
        client = connect(url, user)
        with pytest.raises(UnauthorizedError, match="no-such-login"):
            await list_once(client)


async def test_the_context_that_is_asked_for(write: Write, nowhere: str) -> None:
    """Several files are merged: each context is found, the first file's current one counts."""
    api = answer_with("two")
    async with listen(api) as url:
        paths = f"/does/not/exist:{write('http://127.0.0.1:1', name='one')}:{write(url, {'token': 'two'}, name='two')}"
        await list_once(config.connect(paths, "two", service_account=nowhere))
        with pytest.raises(UnreachableError):
            await list_once(config.connect(paths, service_account=nowhere))

    assert len(api.calls) == 1


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for loopback, which is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    openssl("req", "-x509", *ec, "-addext", "subjectAltName=IP:127.0.0.1", *files)
    return folder


def server_side(certificates: Path, *, mutual: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / "cert.pem")
    return context


async def test_client_certificates_as_data_and_as_files(connect: Connect, certificates: Path) -> None:
    """A server that demands one accepts both."""
    cert, key = certificates / "cert.pem", certificates / "key.pem"
    as_data = {
        "client-certificate-data": base64.b64encode(cert.read_bytes()).decode(),
        "client-key-data": base64.b64encode(key.read_bytes()).decode(),
    }
    as_files = {"client-certificate": str(cert), "client-key": str(key)}
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api, tls=server_side(certificates, mutual=True)) as url:
        for user in (as_data, as_files):
            await list_once(connect(url, user, **{"certificate-authority": str(cert)}))

    assert len(api.calls) == 2


@dataclass
class Rotating:
    """A folder as a kubelet mounts it: its files lead through a link that is exchanged."""

    folder: Path
    turns: int = 0

    def turn(self, authority: trustme.CA) -> ssl.SSLContext:
        """Certificates of another authority; the server's side of them."""
        self.turns += 1
        version = self.folder / f"version-{self.turns}"
        version.mkdir()
        authority.cert_pem.write_to_path(version / "ca.crt")
        client = authority.issue_cert("client@example")
        client.private_key_pem.write_to_path(version / "tls.key")
        (version / "tls.crt").write_bytes(b"".join(part.bytes() for part in client.cert_chain_pems))
        self.show(version)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
        return context

    def show(self, version: Path) -> None:
        """In one step."""
        link = self.folder / "next"
        link.symlink_to(version)
        link.rename(self.folder / "now")

    def cluster(self) -> dict[str, str]:
        return {"certificate-authority": str(self.folder / "now" / "ca.crt")}

    def user(self) -> dict[str, str]:
        now = self.folder / "now"
        return {"client-certificate": str(now / "tls.crt"), "client-key": str(now / "tls.key")}


async def test_certificates_are_read_again(connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The next connection reads the authority and our certificate again. While they are broken the former ones stay."""
    rotating, authority = Rotating(tmp_path), trustme.CA()
    before, port = rotating.turn(authority), free_port()
    client = connect(f"https://127.0.0.1:{port}", rotating.user(), **rotating.cluster())
    api = ScriptedApi(lambda call: listing("1"))
    try:
        async with listen(api, port=port, tls=before):
            await client.list_pods()
        (tmp_path / "broken").mkdir()
        rotating.show(tmp_path / "broken")
        async with listen(api, port=port, tls=before):
            await client.list_pods()
        assert "certificates not read again" in caplog.text
        async with listen(api, port=port, tls=rotating.turn(trustme.CA())):
            await client.list_pods()
        # The former authority is not trusted any more.
        async with listen(api, port=port, tls=before):
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.list_pods()
    finally:
        await client.close()

    assert len(api.calls) == 3


async def test_a_kubeconfig_is_read_again(write: Write, nowhere: str, tmp_path: Path) -> None:
    """A kubeconfig is read again with the certificates that are in it, as a renewal by kubeadm writes it."""
    rotating, port = Rotating(tmp_path), free_port()

    def written(authority: trustme.CA) -> tuple[str, ssl.SSLContext]:
        tls = rotating.turn(authority)
        files = {**rotating.cluster(), **rotating.user()}
        data = {f"{name}-data": base64.b64encode(Path(path).read_bytes()).decode() for name, path in files.items()}
        authority_data = data.pop("certificate-authority-data")
        return write(f"https://127.0.0.1:{port}", data, **{"certificate-authority-data": authority_data}), tls

    api = ScriptedApi(lambda call: listing("1"))
    path, tls = written(trustme.CA())
    client = config.connect(path, service_account=nowhere)
    try:
        async with listen(api, port=port, tls=tls):
            await client.list_pods()
        _, tls = written(trustme.CA())
        async with listen(api, port=port, tls=tls):
            await client.list_pods()
    finally:
        await client.close()

    assert len(api.calls) == 2


async def test_an_unknown_authority_is_not_trusted(connect: Connect, certificates: Path) -> None:
    """A server with an unknown authority is not trusted and gets no request."""
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api, tls=server_side(certificates)) as url:
        with pytest.raises(UnreachableError, match=r"(?i)certificate") as caught:
            await list_once(connect(url))

    assert not caught.value.may_have_happened
    assert api.calls == []


@pytest.mark.parametrize("kubeconfig", [None, "/etc/kubernetes/does-not-exist.conf"])
async def test_in_cluster(
    tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: str | None
) -> None:
    """A program in a cluster uses its service account, also if KUBECONFIG names an absent file as in the original's manifests."""
    (tmp_path / "token").write_text("mounted")
    (tmp_path / "namespace").write_text("kube-system")
    (tmp_path / "ca.crt").write_bytes((certificates / "cert.pem").read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    api = answer_with("mounted")
    async with listen(api, tls=server_side(certificates)) as url:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", url.rpartition(":")[2])
        await list_once(config.connect(kubeconfig, service_account=str(tmp_path)))

    assert len(api.calls) == 1


async def test_an_explicit_kubeconfig_wins_over_the_cluster(write: Write, tmp_path: Path) -> None:
    """The mounted token is not sent."""
    (tmp_path / "token").write_text("mounted")
    api = answer_with("mine")
    async with listen(api) as url:
        await list_once(config.connect(write(url, {"token": "mine"}), service_account=str(tmp_path)))

    assert len(api.calls) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot read the kubeconfig"),
        ("[]", "no kubeconfig"),
        ("[" * 1000, "it is no YAML"),
        ("users: &a [*a]", "it is no YAML"),
        ("a: " + "9" * 10_000, "it is no YAML"),
        ("", "no current context"),
        ("current-context: x", "'x'"),
        ("current-context: [x]", "has no context"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: y}}]", "'y'"),
        ("contexts: [{context: {}}]", "no name"),
        ("users: [{name: x, user: 7}]", "no mapping"),
        ("users: [{name: u, user: {token: a}}, {name: u, user: {token: b}}]", "users has two entries named 'u'"),
        *((f"{section}: 5", f"{section} is no list") for section in ("clusters", "contexts", "users")),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: 3}}]", "kubeconfig"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: x}}]\n"
            "clusters: [{name: x, cluster: {server: 'https://h', certificate-authority: /does/not/exist}}]",
            "'x'",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: x}}]\n"
            "clusters: [{name: x, cluster: {server: 'https://h', certificate-authority-data: '!'}}]",
            "'x'",
        ),
    ],
)
def test_a_kubeconfig_that_makes_no_sense_says_so(tmp_path: Path, nowhere: str, text: str, says: str) -> None:
    """A usage error with the file or context in it, never a traceback."""
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(UsageError, match=says):
        config.connect(str(path), service_account=nowhere)


def test_an_authority_may_have_comments_in_any_language(connect: Connect) -> None:
    """A bundle of certificates with accents between them is read, as data as from a file."""
    pem = "# Autorité\n".encode() + trustme.CA().cert_pem.bytes()
    connect("https://cluster.invalid", **{"certificate-authority-data": base64.b64encode(pem).decode()})


def test_the_kubeconfig_that_is_there_is_named(tmp_path: Path, nowhere: str) -> None:
    """If some of several files are missing, an error names the others."""
    (tmp_path / "there").write_text("{}")
    with pytest.raises(UsageError, match=f"the kubeconfig {tmp_path}/there has no current context"):
        config.connect(f"{tmp_path}/absent:{tmp_path}/there", service_account=nowhere)


def test_a_login_plugin_without_a_command_is_refused(connect: Connect) -> None:
    """It is refused at the start and by name, as by kubectl."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}}
    with pytest.raises(UsageError, match="the login plugin has no command"):
        connect("https://cluster.invalid", user)


def test_a_missing_kubeconfig_says_what_to_do(nowhere: str) -> None:
    """The error names the flag."""
    with pytest.raises(UsageError, match="--kubeconfig"):
        config.connect("/does/not/exist", service_account=nowhere)


@pytest.mark.parametrize(("seconds", "expected"), [(None, 1), (0.0, 2)])
async def test_a_connection_is_kept_between_requests(
    write: Write, monkeypatch: pytest.MonkeyPatch, seconds: float | None, expected: int
) -> None:
    """A connection is kept as long as we choose, not as the library would: a handshake costs more than a request."""
    if seconds is not None:
        monkeypatch.setattr(http_pool, "IDLE_SECONDS", seconds)
    async with counting() as (url, connections):
        client = config.connect(write(url))
        try:
            for _ in range(2):
                await client.list_pods()
        finally:
            await client.close()

    assert len(connections) == expected
    assert http_pool.IDLE_SECONDS >= 60 or seconds is not None


async def test_many_parallel_requests_share_few_kept_connections(write: Write) -> None:
    """However many pods are bound together; the next burst makes no handshake."""
    async with counting() as (url, connections):
        client = config.connect(write(url))
        try:
            opened = []
            for _ in range(2):
                await asyncio.gather(*(client.list_pods() for _ in range(100)))
                opened.append(len(connections))
        finally:
            await client.close()

    assert opened == [http_pool.CONNECTIONS] * 2


@contextlib.asynccontextmanager
async def counting() -> AsyncIterator[tuple[str, list[int]]]:
    """Empty lists, over as many connections as are asked for: the URL, and one entry for each of them."""
    connections: list[int] = []
    ended: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        body = b'{"metadata": {"resourceVersion": "1"}, "items": []}'
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.append(1)

    server = await asyncio.start_server(serve, "127.0.0.1")
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
        await until(lambda: len(ended) == len(connections))
    finally:
        server.close()


def test_truncated_kubeconfig_leaks_no_secret(tmp_path: Path) -> None:
    """A file that is being rewritten ends anywhere, also within a token; the error names the place alone."""
    user = {"name": "u", "user": {"token": "SECRET-TOKEN", "client-key-data": "U0VDUkVULUtFWQ=="}}
    whole = json.dumps({"users": [user], "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]})
    path = tmp_path / "kubeconfig"
    for length in range(1, len(whole)):
        path.write_text(whole[:length])
        with pytest.raises(UsageError) as refused:
            config.connect(str(path))
        assert "SECRET" not in str(refused.value)
        assert "U0VDUk" not in str(refused.value)


@pytest.mark.parametrize("name", ["api.example", None])
async def test_a_server_is_verified_by_its_tls_server_name(connect: Connect, tmp_path: Path, name: str | None) -> None:
    """An API server behind a tunnel has a certificate of another name, and that name is sent to it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("api.example").configure_cert(context)
    sent: list[str | None] = []
    context.sni_callback = lambda _socket, server, _context: sent.append(server)
    fields = {"certificate-authority": str(tmp_path / "ca.crt")} | ({} if name is None else {"tls-server-name": name})
    async with listen(ScriptedApi(lambda call: listing("1")), tls=context) as url:
        client = connect(url, **fields)
        if name is None:
            with pytest.raises(UnreachableError, match=r"(?i)certificate"):
                await list_once(client)
        else:
            await list_once(client)
            assert sent == [name]


@pytest.mark.parametrize(
    "user", [{}, {"token": "t"}, {"username": "u", "password": "p"}], ids=["none", "token", "basic"]
)
async def test_a_user_acts_as_another(write: Write, nowhere: str, user: dict[str, Any]) -> None:
    """Every request has it; without it a program would have more rights than in the file."""
    api = ScriptedApi(lambda call: listing("1"))
    other = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes/x": ["view"]}}
    async with listen(api) as url:
        client = config.connect(write(url, {**user, **other}), service_account=nowhere)
        await client.list_nodes()
        await list_once(client)

    assert len(api.calls) == 2
    for call in api.calls:
        sent = {name: text for name, text in call.headers.items() if name.startswith("impersonate-")}
        # If two headers have one name the server keeps the last.
        assert sent == {
            "impersonate-user": "jane", "impersonate-uid": "7", "impersonate-group": "b", "impersonate-extra-scopes%2fx": "view",
        }  # fmt: skip
        assert ("authorization" in call.headers) is bool(user)


async def test_a_renewed_token_keeps_the_impersonation(connect: Connect, tmp_path: Path) -> None:
    """A login that answers a 401 sends the other user again."""
    (tmp_path / "token").write_text("second")
    api = answer_with("second")
    async with listen(api) as url:
        user = {**plugin(tmp_path, "answer('second')", "v1beta1"), "as": "jane"}
        client = connect(url, user)
        await list_once(client)

    assert [call.headers["impersonate-user"] for call in api.calls] == ["jane"]


async def test_no_login_is_sent_in_plain_http(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """No login is sent in plain HTTP to another machine, as by kubectl, because each host on the way could read it."""
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api) as url:
        await list_once(connect("http://cluster.invalid", {"token": "secret"}, **{"proxy-url": url}))

    assert "authorization" not in api.calls[0].headers
    assert "no login is sent to http://cluster.invalid" in caplog.text


@pytest.mark.parametrize(
    ("says", "user", "cluster"),
    [
        ("cannot use the kubeconfig", None, {"server": "https://h:abc"}),
        ("the cluster names no server", {}, {"server": ""}),
        ("has as-groups, but names no user to act as", {"as-groups": ["system:masters"]}, {}),
        ("a token and a username", {"token": "t", "username": "u"}, {}),
        ("a client-certificate and no client-key", {"client-certificate": "c.pem"}, {}),
        ("a client-key and no client-certificate", {"client-key-data": "eA=="}, {}),
        ("auth-provider", {"auth-provider": {"name": "gcp"}}, {}),
        ("insecure-skip-tls-verify", {}, {"certificate-authority": "ca.pem", "insecure-skip-tls-verify": True}),
    ],
)
def test_fields_that_kubectl_refuses_are_refused(
    connect: Connect, says: str, user: dict[str, Any] | None, cluster: dict[str, Any]
) -> None:
    """By their names, at the start and not with the first request; kubectl would ask localhost:8080 for a missing server."""
    with pytest.raises(UsageError, match=says):
        connect(**{"server": "https://127.0.0.1:1", "user": user, **cluster})


@pytest.mark.parametrize("text", [None, "", "\n"], ids=["missing", "empty", "blank"])
async def test_a_token_counts_if_its_file_has_none(connect: Connect, tmp_path: Path, text: str | None) -> None:
    """A token counts if its token file has none, as for kubectl."""
    if text is not None:
        (tmp_path / "token").write_text(text)
    api = answer_with("spare")
    async with listen(api) as url:
        client = connect(url, {"token": "spare", "tokenFile": "token"})
        await list_once(client)

    assert len(api.calls) == 1


def test_kubeconfig_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    """In a pod with a service account, a path that cannot be read is an error, and not the service account's login."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of-the-account")
    with pytest.raises(UsageError, match="Is a directory"):
        config.connect(str(tmp_path), service_account=str(account))


@pytest.mark.parametrize("is_provided", [True, False])
async def test_a_login_plugin_is_given_the_cluster(
    connect: Connect, tmp_path: Path, capfd: pytest.CaptureFixture[str], is_provided: bool
) -> None:
    """If the kubeconfig allows it; its messages for a person come to our stderr, and it does not read our stdin."""
    told = tmp_path / "told"
    program = f"""
import os, pathlib, sys
pathlib.Path({str(told)!r}).write_text(os.environ["KUBERNETES_EXEC_INFO"])
print("To sign in, open https://login.example", file=sys.stderr)
assert sys.stdin.read() == ""
answer("x")
"""
    user = plugin(tmp_path, program)
    user["exec"]["provideClusterInfo"] = is_provided
    async with listen(answer_with("x")) as url:
        await list_once(connect(url, user))

    spec = json.loads(told.read_text())["spec"]
    assert spec == {"interactive": False} | ({"cluster": {"server": url}} if is_provided else {})
    assert "To sign in" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("apiVersion", "v2"),
        ("apiVersion", "client.authentication.k8s.io/v1alpha1"),
        ("interactiveMode", "Sometimes"),
        ("interactiveMode", ""),
    ],
)
def test_a_login_plugin_of_another_kind_is_refused(connect: Connect, tmp_path: Path, field: str, says: str) -> None:
    """The error names the field and what it may be."""
    user = plugin(tmp_path, "")
    user["exec"][field] = says
    with pytest.raises(UsageError, match=f"{field} is '{says}'"):
        connect("https://127.0.0.1:1", user)


async def test_a_login_plugin_that_must_ask_needs_a_terminal(connect: Connect, tmp_path: Path) -> None:
    """A login plugin that must ask is not started without a terminal."""
    user = plugin(tmp_path, "raise SystemExit('started')")
    user["exec"]["interactiveMode"] = "Always"
    async with listen(answer_with("x")) as url:
        with pytest.raises(UnauthorizedError, match="needs a terminal"):
            await list_once(connect(url, user))


Greeting = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[int]]
"""The proxy's part of the talk before bytes go through; the port on this machine that they go to, 0 to end."""


@contextlib.asynccontextmanager
async def listening(greet: Greeting) -> AsyncIterator[int]:
    """A proxy that takes every host for this machine; its port."""
    pumps: list[asyncio.Task[None]] = []

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = await greet(reader, writer)
        if not port:
            writer.close()
            return
        behind, before = await asyncio.open_connection("127.0.0.1", port)
        pumps.extend(asyncio.ensure_future(pump(*ends)) for ends in ((behind, writer), (reader, before)))

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*pumps)


@contextlib.asynccontextmanager
async def proxy(answer: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy for CONNECT: its URL, and the hosts that were asked for."""
    asked: list[str] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1])
        writer.write(answer)
        return int(asked[-1].rpartition(":")[2]) if b" 200 " in answer else 0

    async with listening(greet) as port:
        yield f"http://127.0.0.1:{port}", asked


@contextlib.asynccontextmanager
async def socks(reply: int = 0, login: bytes = b"") -> AsyncIterator[tuple[str, list[str]]]:
    """A SOCKS5 proxy (RFC 1928), with a login (RFC 1929) or without: its place, and the hosts that were asked for."""
    asked: list[str] = []

    async def text(reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly((await reader.readexactly(1))[0])

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        await reader.readexactly(1)
        method = 2 if login else 0
        known = method in await text(reader)
        writer.write(bytes([5, method if known else 0xFF]))
        if login:
            await reader.readexactly(1)
            is_right = await text(reader) + b":" + await text(reader) == login
            writer.write(bytes([1, not is_right]))
        kind = (await reader.readexactly(4))[3]
        host = (
            (await text(reader)).decode()
            if kind == 3
            else str(ipaddress.ip_address(await reader.readexactly(4 * kind)))
        )
        port = int.from_bytes(await reader.readexactly(2))
        asked.append(f"{host}:{port}")
        writer.write(bytes([5, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        return port if not reply else 0

    async with listening(greet) as port:
        yield f"127.0.0.1:{port}", asked


async def test_https_goes_through_a_tunnel_of_the_proxy(connect: Connect, tmp_path: Path) -> None:
    """The server behind the proxy is verified by its own name, and the login is sent to it alone."""
    authority, api = trustme.CA(), answer_with("t")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("cluster.invalid").configure_cert(context)
    async with listen(api, tls=context) as url, proxy() as (way, asked):
        port = url.rpartition(":")[2]
        fields = {"certificate-authority": str(tmp_path / "ca.crt"), "proxy-url": way}
        await list_once(connect(f"https://cluster.invalid:{port}", {"token": "t"}, **fields))

    assert (asked, len(api.calls)) == ([f"cluster.invalid:{port}"], 1)


async def test_a_proxy_that_refuses_is_an_error_without_effects(connect: Connect) -> None:
    """Nothing was sent to the server, and the proxy's password is not shown."""
    async with proxy(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as (way, _):
        client = connect("https://cluster.invalid", **{"proxy-url": way.replace("//", "//user:sesame@")})
        with pytest.raises(UnreachableError, match="407") as caught:
            await list_once(client)

    assert not caught.value.may_have_happened
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "kind", "login"),
    [
        ("cluster.invalid", "socks5", ""),
        ("cluster.invalid", "SOCKS5h", "user:se%20same@"),
        ("192.0.2.7", "socks5", ""),
        ("[2001:db8::7]", "socks5", ""),
    ],
)
async def test_https_goes_through_a_socks5_proxy(
    connect: Connect, tmp_path: Path, host: str, kind: str, login: str
) -> None:
    """The proxy looks the name up, and the server behind it is verified by its own name."""
    authority, api, name = trustme.CA(), answer_with("t"), host.strip("[]")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    async with listen(api, tls=context) as url, socks(login=b"user:se same" if login else b"") as (place, asked):
        port = url.rpartition(":")[2]
        fields = {"certificate-authority": str(tmp_path / "ca.crt"), "proxy-url": f"{kind}://{login}{place}"}
        await list_once(connect(f"https://{host}:{port}", {"token": "t"}, **fields))
        fields["tls-server-name"] = "other.invalid"
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await list_once(connect(f"https://{host}:{port}", {"token": "t"}, **fields))

    assert (asked, len(api.calls)) == ([f"{name}:{port}"] * 2, 1)
    assert not caught.value.may_have_happened


@pytest.mark.parametrize(
    ("reply", "login", "given", "why"),
    [
        (5, b"", "", "the SOCKS5 proxy refused: Connection refused by destination host"),
        (2, b"", "", "the SOCKS5 proxy refused: Connection not allowed by ruleset"),
        (0, b"a:b", "", "the SOCKS5 proxy refused: No acceptable authentication methods"),
        (0, b"a:b", "user:sesame@", "the SOCKS5 proxy refused: Username and password authentication failure"),
    ],
)
async def test_a_socks5_proxy_that_refuses_is_an_error(
    connect: Connect, reply: int, login: bytes, given: str, why: str
) -> None:
    """Nothing was sent to the server, and the proxy's password is not shown."""
    async with socks(reply, login) as (place, _):
        with pytest.raises(UnreachableError, match=why) as caught:
            await list_once(connect("https://cluster.invalid", **{"proxy-url": f"socks5://{given}{place}"}))

    assert not caught.value.may_have_happened
    assert "sesame" not in str(caught.value)


async def test_a_socks5_proxy_that_is_away_is_an_error(connect: Connect) -> None:
    """Its place is named."""
    with pytest.raises(UnreachableError, match="Couldn't connect to proxy 127.0.0.1:1") as caught:
        await list_once(connect("https://cluster.invalid", **{"proxy-url": "socks5://127.0.0.1:1"}))

    assert not caught.value.may_have_happened


@pytest.mark.parametrize(
    ("variable", "value", "chosen"),
    [
        ("HTTPS_PROXY", "socks5://p.invalid", "socks5://p.invalid"),
        ("https_proxy", "socks5h://p.invalid:1", "socks5h://p.invalid:1"),
        ("HTTP_PROXY", "http://p.invalid:1", None),
        ("ALL_PROXY", "socks5://p.invalid:1", None),
    ],
)
def test_variables_of_a_proxy_are_those_of_go(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, chosen: str | None
) -> None:
    """The scheme of the server chooses the variable, in capitals or not; kubectl does not know ALL_PROXY."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv(variable, value)

    assert config.proxy_of(Cluster("https://api.invalid"), is_outside=True) == chosen


@pytest.mark.parametrize(
    ("server", "spared", "is_spared"),
    [
        ("10.1.2.3:6443", "10.0.0.0/8", True),
        ("10.1.2.3:6443", "10.1.2.3/8", True),
        ("10.1.2.3:6443", "192.168.0.0/16, fd00::/8", False),
        ("[fd00::1]:6443", "10.0.0.0/8, fd00::/8", True),
        ("api.corp.example", "*.corp.example", True),
        ("corp.example", "*.corp.example", False),
        ("api.other.example", "x, *", True),
        ("api.other.example", "*.corp.example,10.0.0.0/8", False),
        ("api.corp.example", "corp.example", True),
        ("corp.example", "CORP.example", True),
        ("corp.example", ".corp.example", False),
        ("api.corp.example:6443", "corp.example:6443", True),
        ("api.corp.example", "corp.example:443", True),
        ("api.corp.example", "corp.example:6443", False),
        ("xcorp.example", "corp.example", False),
        ("10.1.2.3:6443", "10.1.2.3:6443", True),
        ("10.1.2.3:6443", "1.2.3, 3, .3", False),
        ("[fd00::1]:6443", "[fd00:0::1]:6443", True),
        ("[fd00::1]:6443", "fd00::1", True),
        ("api.corp.example", ",., :6443", False),
    ],
)
def test_networks_and_domains_need_no_proxy(
    monkeypatch: pytest.MonkeyPatch, server: str, spared: str, is_spared: bool
) -> None:
    """NO_PROXY may name networks, domains with a star, and every host among others, as for kubectl."""
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", spared)
    chosen = config.proxy_of(Cluster(f"https://{server}"), is_outside=True)
    assert chosen == (None if is_spared else "http://proxy.invalid:3128")


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("socks4://127.0.0.1:1080", "'socks4', and only http, https and socks5"),
        ("socks5://", "socks5://HOST:PORT"),
        ("http://", "http://HOST:PORT"),
        ("http://user:sesame@proxy:abc", "no host and port"),
        ("http://user:sesame@proxy:99999", "no host and port"),
        ("http://[::1", "no host and port"),
        ("user:sesame@proxy:3128", "http://HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused(connect: Connect, proxy: str, reason: str) -> None:
    """It is refused at the start, because requests past it would go another way; its password is not shown."""
    with pytest.raises(UsageError, match=reason) as caught:
        connect("https://cluster.invalid", **{"proxy-url": proxy})
    assert "sesame" not in str(caught.value)


def test_a_proxy_may_be_written_in_capitals(connect: Connect) -> None:
    """The kind of a proxy is read in either case, as by kubectl."""
    connect("https://cluster.invalid", **{"proxy-url": "HTTP://proxy.invalid:3128"})


@pytest.mark.parametrize("spared", ["", "cluster.invalid", ".invalid", "*"])
async def test_proxies_of_the_environment(connect: Connect, monkeypatch: pytest.MonkeyPatch, spared: str) -> None:
    """HTTP_PROXY counts for other machines, unless NO_PROXY names them."""
    api = ScriptedApi(lambda call: listing("1"))
    monkeypatch.setenv("no_proxy", spared)
    async with listen(api) as url:
        monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
        client = connect("http://cluster.invalid")
        if spared:
            with pytest.raises(UnreachableError):
                await list_once(client)
        else:
            await list_once(client)

    assert len(api.calls) == (0 if spared else 1)
