"""``python -m load run`` as a person calls it: Locust in front of a real extender, for seconds. Only a planted time is judged."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.processes.scratch import free_port
from load.__main__ import main
from load.load_commands import CLUSTERS

ROOT = Path(__file__).parents[3]
SMALL = ["--cluster", str(CLUSTERS / "nodes-100.yaml"), "--seconds", "5", "--rate", "30"]
# Seen by every Python program that is started with it on its path; it slows down the extender's filter alone.
SLOW = """
import sys, time
if any("gpushare-extender" in word for word in sys.orig_argv):
    from gpushare.extender.verbs import Verbs
    filter = Verbs.filter
    Verbs.filter = lambda self, body: (time.sleep(1), filter(self, body))[1]
"""
# An extender for which each pod fits on every second node, and that binds none.
REFUSES = """
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.answer({})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        names = asked.get("NodeNames") or []
        if self.path.endswith("/filter"):
            self.answer({"NodeNames": names[::2], "FailedNodes": {name: "full" for name in names[1::2]}})
        elif self.path.endswith("/prioritize"):
            self.answer([{"Host": name, "Score": 0} for name in names])
        else:
            self.answer({"Error": "not today"})
    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
# An extender for which each pod fits everywhere, and that binds every pod to the first card of its node.
AGREES = (
    REFUSES.replace("names[::2]", "names")
    .replace("names[1::2]", "()")
    .replace('self.answer({"Error": "not today"})', "self.answer(bind(asked))")
    .replace(
        "class Handler",
        """
import urllib.request, yaml
server = yaml.safe_load(open(os.environ["KUBECONFIG"]))["clusters"][0]["cluster"]["server"]
def bind(asked):
    metadata = {"name": asked["PodName"], "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}}
    body = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": asked["Node"]}}
    url = f"{server}/api/v1/namespaces/{asked['PodNamespace']}/pods/{asked['PodName']}/binding"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=10).read()
    return {}
class Handler""",
        1,
    )
)
LOOSE = "bounds: [{verb: filter, figure: p50, most: 1000}, {verb: filter, figure: failures, most: 0}]"


def load(*argv: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, ended."""
    return subprocess.run(
        [sys.executable, "-m", "load", "run", *map(str, argv)],
        capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, timeout=500, check=False,
    )  # fmt: skip


def test_a_run_ends_with_figures_of_every_verb(tmp_path: Path) -> None:
    """Pods come, are scheduled and bound, others end; table, JSON, Locust's page; all over TLS, with two workers."""
    out, loose = tmp_path / "out", tmp_path / "loose.yaml"
    loose.write_text(LOOSE)
    users = ["--workers", "2", "--schedulers", "2", "--inspectors", "1", "--what-if", "1", "--viewers", "2"]
    done = load(*SMALL, "--tls", *users, "-o", out, "--bounds", loose)

    assert done.returncode == 0, done.stderr
    run = json.loads((out / "load.json").read_text())
    found = {row["verb"]: row for row in run["rows"]}
    assert found.keys() >= {"filter", "prioritize", "bind", "inspect", "explain", "ui", "ui/state", "ui/events"}
    assert all(row["failures"] == 0 and row["count"] > 0 for row in run["rows"]), run["failures"]
    counts = run["outcome"]["counts"]
    assert 0 < counts["ended"] == counts["binds"] <= counts["created"]
    assert found["filter"]["count"] >= counts["binds"]
    assert len(run["outcome"]["samples"]) > 1
    assert "kept    filter failures: 0, at most 0" in done.stdout
    assert (out / "locust.html").stat().st_size > 0
    assert len(list(out.glob("requests-*.tsv"))) == 2


@pytest.mark.exhaustive("the bounds themselves are judged in test_results.py")
def test_a_planted_slowdown_breaks_the_bounds(tmp_path: Path) -> None:
    """A second in each filter: exit code 99, and the shipped bounds that broke: over the server that does nothing, and
    over the extender as of a commit, which has no such delay."""
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("this is no checkout of git, so it has no commit to compare with")
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    done = load(*SMALL, "--baseline", "HEAD", "-o", tmp_path / "out", PYTHONPATH=str(tmp_path))

    assert done.returncode == 99, done.stderr
    assert re.search(r"BROKEN  filter p50: [\d.]+, at most 5 x floor, ", done.stdout)
    assert re.search(r"BROKEN  filter p50: [\d.]+, at most 1.5 x baseline, ", done.stdout)


@pytest.mark.exhaustive("four extenders are started and asked")
def test_each_extender_that_breaks_a_promise_is_named(tmp_path: Path) -> None:
    """One refuses all binds, the user's own reports binds that it does not make, one binds to another node; ours is right.

    All are asked as HAMi is: verbs at the root, and no prioritize. A bound can be for
    one alone. The run names over-booked nodes; files of the user stay.
    """
    no_card = AGREES.replace('"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "0"}', '"annotations": {}')
    scripts = {
        "refuses": REFUSES,
        "reports": REFUSES.replace('{"Error": "not today"}', "{}"),
        "elsewhere": no_card.replace('"name": asked["Node"]', '"name": "t4-00000"'),
    }
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    bounds, out, api, port = tmp_path / "bounds.yaml", tmp_path / "out", free_port(), free_port()
    out.mkdir()
    (out / "own.tsv").write_text("mine")
    bounds.write_text(
        "bounds: [{verb: bind, figure: refused, most: 0.05}, {verb: filter, figure: p50, most: 0, to: other 2}]"
    )
    url = f"http://127.0.0.1:{port}"
    others = [
        word for name in ("refuses", "elsewhere") for word in ("--against", f"{sys.executable} {tmp_path}/{name}.py")
    ]
    asked = ["--against", url, "--api-port", api, "--path", "/", "--verbs", "filter,bind"]
    own = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([sys.executable, str(tmp_path / "reports.py")], env=own) as users:
        try:
            # So long that more binds are over-booked than the API server may not have shown yet.
            done = load(*SMALL, "--seconds", 10, "--shape", "trace", *others, *asked, "-o", out, "--bounds", bounds)
        finally:
            users.terminate()

    assert done.returncode == 99, done.stdout + done.stderr
    for promise in (
        "BROKEN  other 1 bind refused: 1, at most 0.05, 1900% above it",
        r"BROKEN  other 2 filter p50: [\d.]+, at most 0 x floor",
        rf"BROKEN  each reported bind is made; {url}: \d+ were not",
        r"BROKEN  each bind is made on the node of its order; other 2: \d+ were not \(\S+ is on t4-00000, not on \S+\)",
        r"BROKEN  no card is over-booked; \d+ bindings .*: all cards of t4-00000: \d+ of \d+",
        r"; \d+ binds wrote no ALIYUN_COM_GPU_MEM_IDX: only the sum of their node",
        "not today",
    ):
        assert re.search(promise, done.stdout), (promise, done.stdout)
    rows = {(row["extender"], row["verb"]): row for row in json.loads((out / "load.json").read_text())["rows"]}
    assert {extender for extender, verb in rows if verb == "prioritize"} == {"gpushare"}
    theirs, ours = rows["other 1", "bind"], rows["gpushare", "bind"]
    assert (theirs["refused"], theirs["failures"]) == (theirs["count"], 0)
    assert (ours["refused"], ours["failures"]) == (0, 0)
    assert rows["other 1", "filter"]["fit"] == 0.5 < rows["gpushare", "filter"]["fit"]
    counts = [row["count"] for (_, verb), row in rows.items() if verb == "filter"]
    assert max(counts) - min(counts) <= 1
    assert (out / "own.tsv").read_text() == "mine"


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["--cluster", "none.yaml"], 1, "none.yaml: cannot be read"),
        (["--against", "http://127.0.0.1:1"], 2, "--against URL needs --api-port"),
        (["--against", "no-such-program --port {port}"], 1, "no-such-program is not on PATH"),
        (["--against", "half 'a word"], 2, "No closing quotation"),
        (["--verbs", "filter"], 2, "bind is missing: a run asks every extender to filter and to bind"),
        (["--verbs", "filter,bind,preempt"], 2, "'preempt' is no verb that a run asks: filter, prioritize, bind"),
        (["--baseline", "HEAD", "--tls"], 2, "cannot be compared over --tls"),
        (["--baseline=--output=x"], 2, "'--output=x' is no commit"),
        (["--baseline", "no-such-commit"], 1, "--baseline no-such-commit: "),
        (["--api-port", "70000"], 2, "'70000' is not a port"),
        (["--shape", "trace", "--trace", "none"], 1, "none/openb_pod_list_default.csv: No such file"),
        (["--shape", "soak", "--baseline", "HEAD"], 2, "judges our extender alone"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: int, message: str
) -> None:
    """On stderr, with its exit code; nothing is left behind."""
    found: object
    try:
        found = main(["run", *argv, "-o", str(tmp_path / "out")])
    except SystemExit as ended:
        found = ended.code

    out, errors = capsys.readouterr()
    assert (found, out) == (code, "")
    assert message in errors.splitlines()[-1]


def test_a_port_that_is_in_use_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started: else another cluster would be measured."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        code = main(["run", *SMALL, "--api-port", str(other.getsockname()[1]), "-o", str(tmp_path / "out")])

    assert code == 1
    assert "of 127.0.0.1 is in use" in capsys.readouterr().err.splitlines()[-1]
