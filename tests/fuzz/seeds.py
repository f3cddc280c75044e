"""Where a fuzzer begins, and what the tests feed in any case: what schedulers and people ask, and what a fuzzer found."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Final

# One input a line, in base64: those that reach other code than the ones before them. ``python -m tests.fuzz`` adds to it.
FOUND: Final = Path(__file__).parents[1] / "data" / "fuzz" / "extender_edge.txt"
_RECORDED: Final = Path(__file__).parents[1] / "data" / "upstream" / "extender"
_POD: Final = (
    '{"metadata":{"name":"waits","namespace":"d","uid":"uid-2"},"spec":{"containers":[{"name":"c",'
    '"resources":{"limits":{"aliyun.com/gpu-mem":"3"}}}]}}'
)
_QUESTIONS: Final = {
    "filter": f'{{"Pod":{_POD},"NodeNames":["n1","n2","n3"]}}',
    "prioritize": f'{{"Pod":{_POD},"NodeNames":["n1","n2"]}}',
    "preempt": f'{{"Pod":{_POD},"NodeNameToMetaVictims":{{"n1":{{"Pods":[{{"UID":"uid-1"}}]}}}}}}',
    "bind": '{"PodName":"waits","PodNamespace":"d","PodUID":"uid-2","Node":"n1"}',
    "explain": _POD,
}
_BY_HAND: Final = (
    b"GET /gpushare-scheduler/inspect HTTP/1.1\r\n\r\nGET /gpushare-scheduler/inspect/n1 HTTP/1.1\r\n\r\n",
    b"GET /gpushare-scheduler/explain/d/waits HTTP/1.1\r\n\r\n",
    b"GET /version HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\n\r\nGET /readyz HTTP/1.1\r\n\r\n",
    b"HEAD /version HTTP/1.1\r\n\r\n",
    b"PUT /gpushare-scheduler/filter HTTP/1.1\r\n\r\n",
    b"GET /gpushare-scheduler/inspect/ HTTP/1.1\r\n\r\n",
    b"POST /gpushare-scheduler/filter HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n",
    b"POST /gpushare-scheduler/bind HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
    b"GET http://host:1/version HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"GET /%2e%ff HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
)


# An input that begins so is the body of a question, with the verb's place in the list after the mark: a fuzzer that changes a body
# would seldom change the length in the head with it.
MARK: Final = b"!"
VERBS: Final = tuple(_QUESTIONS)


def framed(data: bytes) -> bytes:
    """The bytes that are sent for an input."""
    if len(data) < 2 or not data.startswith(MARK):
        return data
    return request("POST", f"/gpushare-scheduler/{VERBS[(data[1] - 48) % len(VERBS)]}", data[2:])


def request(method: str, path: str, body: bytes) -> bytes:
    """As a client writes it."""
    return f"{method} {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def beginnings() -> list[bytes]:
    """Every kind of request, well and badly formed; with the questions to the original when it was recorded."""
    asked = [MARK + bytes([48 + place]) + body.encode() for place, body in enumerate(_QUESTIONS.values())]
    for path in sorted(_RECORDED.glob("*.json")):
        for step in json.loads(path.read_text()).get("steps", ()):
            body = step["request"].get("body")
            content = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
            asked.append(request(step["request"]["method"], step["request"]["path"], content))
    return [*asked, *_BY_HAND]


def found() -> list[bytes]:
    """The inputs that a fuzzer has found."""
    return [base64.b64decode(line) for line in FOUND.read_text().split()] if FOUND.exists() else []
