"""Promises of gpushare.serving.web_pages."""

from __future__ import annotations

import pytest

from gpushare.serving.http_connection import HttpRequest
from gpushare.serving.web_pages import refusal

SERVICE = "gpushare-schd-extender.kube-system"
OURS = "127.0.0.1:32766"


def status(
    *,
    method: str = "POST",
    host: str = OURS,
    origin: str = "",
    content_type: str = "application/json",
    is_tls: bool = False,
) -> int | None:
    """The status of the refusal of a request."""
    request = HttpRequest(method, "/gpushare-scheduler/bind", b"", True, "", host, origin, content_type)
    answer = refusal(request, SERVICE, {"gpu.example.com"}, is_tls=is_tls)
    return None if answer is None else answer.status


@pytest.mark.parametrize(
    "host",
    [
        "", OURS, "10.0.0.7", "[::1]:12345", "[fd00::7]", "localhost:8080", "LOCALHOST", "localhost.", "ui.localhost:1",
        "node-1:32766", "gpushare-schd-extender", f"{SERVICE}:12345", f"{SERVICE}.svc", f"{SERVICE}.svc.cluster.local:12345",
        "ip-10-0-0-1.ec2.internal:32766", "gpu.example.com", "GPU.example.com:8443",
    ],
)  # fmt: skip
def test_a_scheduler_reaches_us_by_each_usual_name(host: str) -> None:
    """Addresses, names of the machine and of the cluster, and the names that a flag lists."""
    assert status(host=host) is None
    assert status(host=host, method="GET") is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:12345", "127.0.0.1.evil.example", "localhost.evil.example", f"{SERVICE}.evil.example",
        f"{SERVICE}.svc.cluster.local.evil.example", "gpushare-schd-extender.com", "x.gpu.example.com", "evil.example.",
        "127.0.0.1evil.example", "127.0.0.1, evil.example", "svc.", "evilsvc.com",
    ],
)  # fmt: skip
def test_a_name_of_a_site_is_refused(host: str) -> None:
    """A page with a name that was made to point here is seen by it, and may not read either."""
    expected = None if host == "svc." else 403
    assert (status(host=host), status(host=host, method="GET")) == (expected, expected)


def test_over_tls_any_name_will_do() -> None:
    """The certificate says that the caller meant us."""
    assert status(host="extender.corp.example", is_tls=True) is None
    assert status(host="a.example", origin="https://b.example", is_tls=True) == 403


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("localhost:8080", "http://localhost:8080", None),
        ("[::1]:8080", "http://[::1]:8080", None),
        ("LocalHost:8080", "http://localhost:8080", None),
        (OURS, "https://gpu.example.com", None),
        ("localhost:8080", "http://localhost:3000", 403),
        (OURS, "https://evil.example", 403),
        (OURS, "http://127.0.0.1.evil.example", 403),
        (OURS, "null", 403),
        (OURS, "file://", 403),
        (OURS, f"http://{OURS}, https://evil.example", 403),
        (OURS, "http://[", 403),
        ("", "https://evil.example", 403),
    ],
)
def test_only_our_own_pages_may_ask(host: str, origin: str, expected: int | None) -> None:
    """A page of the same address, or of a name that the flag lists."""
    assert status(host=host, origin=origin) == expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", None),
        ("application/json; charset=utf-8", None),
        ("Application/JSON", None),
        # The original's callers may send none, and a browser then names the page in Origin.
        ("", None),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain; application/json", 415),
        ("application/jsonp", 415),
        ("application/jsontext/plain", 415),
    ],
)
def test_a_body_must_call_itself_json(content_type: str, expected: int | None) -> None:
    """A browser sends no such body to another site without asking first."""
    assert status(content_type=content_type) == expected
    assert status(content_type=content_type, method="GET") is None
