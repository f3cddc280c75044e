"""Promises of the connection: the kubeconfig that counts, and the credentials. Real files, plugins and TLS."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from gpushare.errors import UsageError
from gpushare.kube import config
from gpushare.kube.api_errors import UnauthorizedError, UnreachableError
from gpushare.kube.client import ApiClient
from gpushare.kube.kubeconfig import Cluster
from tests.gpushare.kube.scripted_api import ScriptedApi, answer_with, listen, listing

Write = Callable[..., str]
Connect = Callable[..., ApiClient]


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
    """Writes a kubeconfig, and connects by its context; the file before it has another one, which is current."""
    before = f"/does/not/exist:{write('http://127.0.0.1:1', name='before')}"
    return lambda *fields, **more: config.connect(f"{before}:{write(*fields, **more)}", "one", service_account=nowhere)


async def list_once(client: ApiClient) -> None:
    async with client:
        await client.list_nodes()


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


@pytest.mark.parametrize("user", [None, {"token": "secret"}], ids=["anonymous", "token"])
@pytest.mark.parametrize("is_named", [True, False], ids=["kubeconfig", "environment"])
async def test_the_proxy_is_used(
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_named: bool,
    user: dict[str, str] | None,
) -> None:
    """A request for a cluster that only the proxy can reach arrives there; a kubeconfig without a user is anonymous.

    No login is sent in plain HTTP to another machine, as by kubectl, because each host on the way could read it.
    """
    api = ScriptedApi(lambda call: listing("1"))
    async with listen(api) as url:
        if not is_named:
            monkeypatch.setenv("http_proxy", url.removeprefix("http://"))
        await list_once(connect("http://cluster.invalid", user, **({"proxy-url": url} if is_named else {})))

    assert api.calls[0].headers["host"] == "cluster.invalid"
    assert "authorization" not in api.calls[0].headers
    assert "no login is sent to http://cluster.invalid" in caplog.text


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


@pytest.mark.parametrize("is_provided", [True, False])
async def test_an_exec_plugin_gives_the_token(
    connect: Connect, tmp_path: Path, capfd: pytest.CaptureFixture[str], is_provided: bool
) -> None:
    """A plugin gets its variables, and the cluster if that is allowed, and is asked again when its token is refused.

    Its messages for a person come to our stderr, it does not read our stdin, and each request acts as the other user.
    """
    count, told = tmp_path / "count", tmp_path / "told"
    program = f"""
import os, pathlib, sys
pathlib.Path({str(told)!r}).write_text(os.environ["KUBERNETES_EXEC_INFO"])
assert os.environ["OWN"] == "yes"
assert sys.stdin.read() == ""
print("To sign in, open https://login.example", file=sys.stderr)
count = pathlib.Path({str(count)!r})
count.write_text((count.read_text() if count.exists() else "") + "x")
answer(count.read_text())
"""
    api, user = answer_with("x"), {**plugin(tmp_path, program), "as": "jane"}
    user["exec"]["provideClusterInfo"] = is_provided
    async with listen(api) as url:
        client = connect(url, user)
        await client.list_nodes()
        await client.list_nodes()
        api.respond = answer_with("xx").respond
        await list_once(client)

    sent = [(call.headers["authorization"], call.headers["impersonate-user"]) for call in api.calls]
    assert sent == [("Bearer x", "jane")] * 3 + [("Bearer xx", "jane")]
    information = json.loads(told.read_text())
    assert information["kind"] == "ExecCredential"
    assert information["spec"] == {"interactive": False} | ({"cluster": {"server": url}} if is_provided else {})
    assert "To sign in" in capfd.readouterr().err


@pytest.mark.parametrize(
    "program",
    [
        "print('hunter2: [')",
        "print('[' * 5000)",
        'print(\'{"apiVersion":"hunter2","kind":"ExecCredential","status":{"token":"t"}}\')',
    ],
)
async def test_the_output_of_an_exec_plugin_is_not_shown(connect: Connect, tmp_path: Path, program: str) -> None:
    """An output that is no login is an error of ours, in which none of it stands."""
    async with listen(answer_with("x")) as url:
        client = connect(url, plugin(tmp_path, program))
        with pytest.raises(UnauthorizedError, match="plugin") as caught:
            await list_once(client)

    assert "hunter2" not in str(caught.value)
    assert not caught.value.may_have_happened


def server_side(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    """A server with a certificate of that name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def turn(folder: Path) -> ssl.SSLContext:
    """Certificates of a new authority, by a link that is exchanged as a kubelet does it; the server's side of them."""
    authority = trustme.CA()
    version = folder / f"version-{len(list(folder.glob('version-*')))}"
    version.mkdir()
    authority.cert_pem.write_to_path(version / "ca.crt")
    client = authority.issue_cert("client@example")
    client.private_key_pem.write_to_path(version / "tls.key")
    client.cert_chain_pems[0].write_to_path(version / "tls.crt")
    show(version)
    context = server_side(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    return context


def show(version: Path) -> None:
    """In one step."""
    link = version.parent / "next"
    link.symlink_to(version)
    link.rename(version.parent / "now")


@pytest.mark.parametrize("is_data", [False, True], ids=["files", "in the kubeconfig"])
async def test_certificates_are_read_again(
    write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_data: bool
) -> None:
    """The next connection reads them again, as kubeadm renews them too; while they are broken the former ones stay."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    def written() -> str:
        paths = {"certificate-authority": "ca.crt", "client-certificate": "tls.crt", "client-key": "tls.key"}
        fields = {name: str(tmp_path / "now" / path) for name, path in paths.items()}
        if is_data:
            data = {name: base64.b64encode(Path(path).read_bytes()).decode() for name, path in fields.items()}
            fields = {f"{name}-data": text for name, text in data.items()}
        authority = {name: fields.pop(name) for name in list(fields) if "authority" in name}
        return write(f"https://127.0.0.1:{port}", fields, **authority)

    before = turn(tmp_path)
    client = config.connect(written(), service_account=str(tmp_path))
    api = ScriptedApi(lambda call: listing("1"))
    try:
        async with listen(api, port=port, tls=before):
            await client.list_pods()
        if not is_data:
            (tmp_path / "broken").mkdir()
            show(tmp_path / "broken")
            async with listen(api, port=port, tls=before):
                await client.list_pods()
            assert "certificates not read again" in caplog.text
        after = turn(tmp_path)
        written()
        async with listen(api, port=port, tls=after):
            await client.list_pods()
        # The former authority is not trusted any more.
        async with listen(api, port=port, tls=before):
            with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                await client.list_pods()
    finally:
        await client.close()

    assert (len(api.calls), caught.value.may_have_happened) == (2 if is_data else 3, False)


@pytest.mark.parametrize("kubeconfig", [None, "/etc/kubernetes/does-not-exist.conf"])
async def test_in_cluster(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, kubeconfig: str | None
) -> None:
    """A program in a cluster uses its service account, also if KUBECONFIG names an absent file as in the original's manifests.

    With a kubeconfig that is there the mounted token is not sent.
    """
    (tmp_path / "token").write_text("mounted")
    (tmp_path / "namespace").write_text("kube-system")
    authority, api = trustme.CA(), answer_with("mounted")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    async with listen(api, tls=server_side(authority)) as url:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", url.rpartition(":")[2])
        await list_once(config.connect(kubeconfig, service_account=str(tmp_path)))
    async with listen(answer_with("mine")) as url:
        await list_once(config.connect(write(url, {"token": "mine"}), service_account=str(tmp_path)))

    assert len(api.calls) == 1


def _context_of(cluster: str) -> str:
    """A kubeconfig whose current context names this cluster."""
    return f"current-context: x\ncontexts: [{{name: x, context: {{cluster: {cluster}}}}}]"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot read the kubeconfig"),
        ("[]", "no kubeconfig"),
        ("", "no current context"),
        ("current-context: x", "'x'"),
        ("current-context: [x]", "has no context"),
        (_context_of("y"), "'y'"),
        ("contexts: [{context: {}}]", "no name"),
        ("users: [{name: x, user: 7}]", "no mapping"),
        ("users: [{name: u, user: {token: a}}, {name: u, user: {token: b}}]", "users has two entries named 'u'"),
        ("contexts: 5", "contexts is no list"),
        (_context_of("3"), "kubeconfig"),
        *(
            (f"{_context_of('x')}\nclusters: [{{name: x, cluster: {{server: 'https://h', {authority}}}}}]", "'x'")
            for authority in ("certificate-authority: /does/not/exist", "certificate-authority-data: '!'")
        ),
    ],
)
def test_a_kubeconfig_that_makes_no_sense_says_so(tmp_path: Path, text: str, says: str) -> None:
    """A usage error with the file or context in it, never a traceback, of one file or among others that are not there."""
    (tmp_path / "config").write_text(text)
    with pytest.raises(UsageError, match=says):
        config.connect(f"{tmp_path}/absent:{tmp_path}/config", service_account=str(tmp_path / "none"))


@pytest.mark.parametrize(("path", "says"), [("absent", "--kubeconfig"), ("", "Is a directory")])
def test_a_kubeconfig_that_is_no_file_is_an_error(tmp_path: Path, path: str, says: str) -> None:
    """If nothing is there the error names the flag. A folder is no reason to take the login of the service account."""
    if not path:
        (tmp_path / "token").write_text("of-the-account")
    with pytest.raises(UsageError, match=says):
        config.connect(str(tmp_path / path), service_account=str(tmp_path))


def test_an_authority_may_have_comments_in_any_language(connect: Connect) -> None:
    """A bundle of certificates with accents between them is read, as data as from a file."""
    pem = "# Autorité\n".encode() + trustme.CA().cert_pem.bytes()
    connect("https://cluster.invalid", **{"certificate-authority-data": base64.b64encode(pem).decode()})


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


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: int) -> str:
    """An HTTP proxy's part of the talk: the place that is asked for."""
    place = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]
    writer.write(f"HTTP/1.1 {reply or 200} Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n".encode())
    return place


async def _socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: int, login: bytes) -> str:
    """That of a SOCKS5 proxy (RFC 1928), with a login (RFC 1929) or without."""

    async def text() -> bytes:
        return await reader.readexactly((await reader.readexactly(1))[0])

    await reader.readexactly(1)
    method = 2 if login else 0
    writer.write(bytes([5, method if method in await text() else 0xFF]))
    if login:
        await reader.readexactly(1)
        writer.write(bytes([1, await text() + b":" + await text() != login]))
    kind = (await reader.readexactly(4))[3]
    name = await text() if kind == 3 else await reader.readexactly(4 * kind)
    host = name.decode() if kind == 3 else str(ipaddress.ip_address(name))
    port = int.from_bytes(await reader.readexactly(2))
    writer.write(bytes([5, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
    return f"{host}:{port}"


@contextlib.asynccontextmanager
async def proxy(scheme: str, reply: int = 0, login: bytes = b"") -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that takes every host for this machine, or refuses with ``reply``: its place, and the hosts that were asked for."""
    asked: list[str] = []
    pumps: list[asyncio.Task[None]] = []

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = _connect(reader, writer, reply) if scheme == "http" else _socks(reader, writer, reply, login)
        try:
            asked.append(await talk)
        except asyncio.IncompleteReadError:
            reader.feed_eof()
        if reply or reader.at_eof():
            writer.close()
            return
        behind, before = await asyncio.open_connection("127.0.0.1", int(asked[-1].rpartition(":")[2]))
        pumps.extend(asyncio.ensure_future(pump(*ends)) for ends in ((behind, writer), (reader, before)))

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        await asyncio.gather(*pumps)


@pytest.mark.parametrize(
    ("host", "scheme", "login"),
    [
        ("cluster.invalid", "http", ""),
        ("cluster.invalid", "socks5", ""),
        ("cluster.invalid", "SOCKS5h", "user:se%20same@"),
        ("192.0.2.7", "socks5", ""),
        ("[2001:db8::7]", "socks5", ""),
    ],
)
async def test_https_goes_through_a_tunnel_of_the_proxy(
    connect: Connect, tmp_path: Path, host: str, scheme: str, login: str
) -> None:
    """The proxy looks the name up; the server behind it is verified by its own name, and the login is sent to it alone."""
    authority, api, name = trustme.CA(), answer_with("t"), host.strip("[]")
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    way = proxy(scheme, login=b"user:se same" if login else b"")
    async with listen(api, tls=server_side(authority, name)) as url, way as (place, asked):
        port = url.rpartition(":")[2]
        fields = {"certificate-authority": str(tmp_path / "ca.crt"), "proxy-url": f"{scheme}://{login}{place}"}
        await list_once(connect(f"https://{host}:{port}", {"token": "t"}, **fields))
        fields["tls-server-name"] = "other.invalid"
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await list_once(connect(f"https://{host}:{port}", {"token": "t"}, **fields))

    assert (asked, len(api.calls)) == ([f"{host if scheme == 'http' else name}:{port}"] * 2, 1)
    assert not caught.value.may_have_happened


@pytest.mark.parametrize(
    ("scheme", "reply", "login", "given", "why"),
    [
        ("http", 407, b"", "user:sesame@", "407"),
        ("socks5", 5, b"", "", "the SOCKS5 proxy refused: Connection refused by destination host"),
        ("socks5", 0, b"a:b", "", "the SOCKS5 proxy refused: No acceptable authentication methods"),
        ("socks5", 0, b"a:b", "user:sesame@", "the SOCKS5 proxy refused: Username and password authentication failure"),
    ],
)
async def test_a_proxy_that_refuses_is_an_error_without_effects(
    connect: Connect, scheme: str, reply: int, login: bytes, given: str, why: str
) -> None:
    """Nothing was sent to the server, and the proxy's password is not shown."""
    async with proxy(scheme, reply, login) as (place, _):
        with pytest.raises(UnreachableError, match=why) as caught:
            await list_once(connect("https://cluster.invalid", **{"proxy-url": f"{scheme}://{given}{place}"}))

    assert not caught.value.may_have_happened
    assert "sesame" not in str(caught.value)


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
        ("127.0.0.1:6443", "", True),
        ("[::1]:6443", "", True),
        ("localhost:6443", "", True),
    ],
)
def test_networks_and_domains_need_no_proxy(
    monkeypatch: pytest.MonkeyPatch, server: str, spared: str, is_spared: bool
) -> None:
    """NO_PROXY may name networks, domains with a star, and every host among others, as for kubectl; loopback needs no name."""
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
