"""Promises of the extender's program: its start, its words, its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gpushare.serving.http_edge import listen
from load.readings import mib
from tests.gpushare.serving.test_http_edge import Authority
from tests.servers import kubeconfig, until

PROGRAM = str(Path(sys.executable).parent / "gpushare-extender")
# The checkout under test, if another one is installed.
PATHS = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}


@pytest.fixture
def no_server(tmp_path: Path) -> str:
    """The kubeconfig for an API server that is not there."""
    return kubeconfig(tmp_path, "http://127.0.0.1:1")


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The console script, its log to be read."""
    return subprocess.Popen([PROGRAM, *arguments], env={**PATHS, **environment}, stderr=subprocess.PIPE, text=True)


def port_of(program: subprocess.Popen[str]) -> int:
    """Where it listens, from its log."""
    assert program.stderr is not None
    line = next(line for line in program.stderr if "starting" in line)
    return int(line.rpartition("port=")[2])


def metrics_of(program: subprocess.Popen[str]) -> str:
    """The page that Prometheus reads, at the address in its log."""
    assert program.stderr is not None
    line = next(line for line in program.stderr if "metrics at" in line)
    where = re.search(r"address=(\S+) port=(\d+) path=(\S+)", line)
    assert where is not None
    return urllib.request.urlopen(f"http://{where[1]}:{where[2]}{where[3]}").read().decode()


def get(port: int, path: str) -> int:
    """The status of an answer."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    ("number", "arguments", "page"), [(signal.SIGTERM, (), 200), (signal.SIGINT, ("--ui=false",), 404)]
)
def test_without_an_api_server_it_lives_and_ends_on_a_signal(
    no_server: str, number: int, arguments: tuple[str, ...], page: int
) -> None:
    """Alive, not ready, with its page unless a flag turns that off, and exit code 0 after a signal; no restart is needed."""
    with start("--address", "127.0.0.1", *arguments, PORT="0", KUBECONFIG=no_server) as program:
        port = port_of(program)
        answers = get(port, "/healthz"), get(port, "/readyz"), get(port, "/gpushare-scheduler/ui")
        program.send_signal(number)
        errors = program.communicate(timeout=300)[1]

    assert (answers, program.returncode, "Traceback" in errors) == ((200, 503, page), 0, False)


@pytest.mark.parametrize("flag", ["--metrics-address", "--address and --port"])
def test_a_port_that_is_taken_is_a_usage_error(no_server: str, flag: str) -> None:
    """Exit code 2, which address, which port, by which flag; no traceback."""
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        is_of_metrics = flag == "--metrics-address"
        arguments = ["--address=127.0.0.1", *([f"{flag}=127.0.0.1:{port}"] if is_of_metrics else [])]
        with start(*arguments, PORT="0" if is_of_metrics else port, KUBECONFIG=no_server) as program:
            errors = program.communicate(timeout=300)[1]

    assert (program.returncode, "Traceback" in errors) == (2, False)
    assert f"127.0.0.1 port {port}: Address already in use; see {flag}" in errors


def test_senseless_file_of_expected_pods_is_a_usage_error(no_server: str, tmp_path: Path) -> None:
    """It is said before the extender listens."""
    (tmp_path / "pods.yaml").write_text("pods: [{gpu-mem: four}]")
    with start("--expected-pods", str(tmp_path / "pods.yaml"), PORT="0", KUBECONFIG=no_server) as program:
        errors = program.communicate(timeout=300)[1]

    assert (program.returncode, errors.count("\n")) == (2, 1)
    assert "pods.yaml: Expected `int`, got `str` - at `$.pods[0].gpu-mem`" in errors


@pytest.mark.parametrize(("address", "is_open"), [("127.0.0.1", 0), ("0.0.0.0", 1), ("", 1)])
def test_the_metrics_show_how_callers_are_admitted(no_server: str, address: str, is_open: int) -> None:
    """At their own address, of an extender that has read nothing yet; without an address it warns."""
    with start("--address", address, "--metrics-address", ":0", PORT="0", KUBECONFIG=no_server) as program:
        assert program.stderr is not None
        assert address or "WARNING gpushare.extender.main listening on all addresses" in program.stderr.readline()
        port = port_of(program)
        text = metrics_of(program)
        on_the_main_port = get(port, "/metrics"), get(port, "/healthz")
        program.terminate()
        program.communicate(timeout=300)

    assert f"\ngpushare_extender_open_to_everybody {is_open:.1f}\n" in text
    assert '\ngpushare_extender_watch_relists_total{resource="pods"} 0.0\n' in text
    assert "gpushare_extender_watch_age_seconds{" not in text
    assert "\ngpushare_log_lines_dropped_total 0.0\n" in text
    assert (on_the_main_port, program.returncode) == ((404, 200), 0)


async def test_memory_of_silent_callers_goes_back(no_server: str, tmp_path: Path) -> None:
    """800 connections without a handshake take more than 30 MiB, and leave at most 20 MiB behind them."""
    files = Authority(tmp_path).files()
    tls = "--tls-cert-file", files.certificate, "--tls-private-key-file", files.key, "--client-ca-file", files.client_ca
    with start("--address", "127.0.0.1", *tls, PORT="0", KUBECONFIG=no_server) as program:
        port, before = port_of(program), mib(program.pid, "VmRSS")
        with contextlib.ExitStack() as stack:
            stack.callback(program.terminate)
            with contextlib.ExitStack() as silent:
                for _ in range(800):
                    silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
                await until(lambda: mib(program.pid, "VmRSS") > before + 30, "memory of callers")
            await until(lambda: mib(program.pid, "VmRSS") < before + 20, "memory without callers", seconds=60)
        program.communicate(timeout=300)

    assert program.returncode == 0
