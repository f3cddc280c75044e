"""Users' work with kubectl, a case each: ``kubectl_commands.yaml``. Both clusters must answer with the same text."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import itertools
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from clusters.controlplane.binaries import Binaries
from clusters.provider import load_nodes
from clusters.providers import Choices, make_cluster
from clusters.targets import Target

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_RULES: Final = (
    # Before the times are replaced. Errors of client-go (E) stay.
    (r"^I\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ reflector\.go:\d+\] .*\n?", ""),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"(resourceVersion\"?: )\"\d+\"", r"\1<version>"),
    (r"(Resource Version: +)\d+", r"\1<version>"),
    # An age stands alone between blanks or in "(5s ago)"; "for 300s" of a toleration is none.
    (r"(?<=[ \t(])(?<!for )(?<!for=)(\d+[ydhms])(\d+[dhms])?(?=[ \t)\n]|$)", "<age>"),
    (r"<age> \(x\d+ over <age>\)", "<age>"),
    (rf"-{_RANDOM}{{6,10}}-{_RANDOM}{{5}}\b", "-<hash>-<random>"),
    (r"^\d+[smhd](?=  )", "<age>"),
    (r"\bonce-[a-z0-9]{5}\b", "once-<random>"),
    (r"\bsimulated://\d+\b", "simulated://<number>"),
    (r"(ASSUME_TIME\"?: \"?)\d+", r"\1<time>"),
    (r"\.[0-9a-f]{16}\b|\.[0-9a-f]{8}\.\d+\b", ".<random>"),
    (rf"\b(web|db|agent)-{_RANDOM}{{6,10}}\b", r"\1-<hash>"),
    (rf"\b(agent)-{_RANDOM}{{5}}\b", r"\1-<random>"),
    (r"https?://127\.0\.0\.1:\d+", "<server>"),
    (r"\b(10|127)\.\d+\.\d+\.\d+\b", "<address>"),
    (rf"(pod-template-hash[=:] ?\"?){_RANDOM}{{6,10}}\b", r"\1<hash>"),
    (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-<random>"),
    (r"[ \t]{2,}|\t", "  "),
    (r" +$", ""),
)
_COMPILED: Final = tuple((re.compile(pattern, re.MULTILINE), word) for pattern, word in _RULES)


def normalised(text: str) -> str:
    """The output with what is volatile replaced."""
    for pattern, word in _COMPILED:
        text = pattern.sub(word, text)
    return text


# Against hangs only.
_SECONDS: Final = 60
# How long a command that is tried again may take until it shows what is waited for, and the pause between tries.
_PATIENCE_SECONDS: Final = 30
_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    kubectl: Path
    folder: Path
    environment: Mapping[str, str]

    async def run(self, command: str, namespace: str, *, until: str = "", compare: str = "all") -> list[str]:
        """Exit code and lines of one command (the words after ``kubectl``) in a namespace, normalised.

        ``until``: it is tried again until its output has this text (after ``!``: has it no more); ``compare``: what is
        answered of the output (``all``, the ``last`` line of stdout, the ``code`` alone).
        """
        is_absent, wanted = until.startswith("!"), until.removeprefix("!")
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while True:
            code, out, err = await self._output(command.replace("{namespace}", namespace), namespace)
            if not until or (wanted in out + err) != is_absent:
                break
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{self.name}: kubectl {command} never showed {until!r}:\n{out}\n{err}")
            await asyncio.sleep(_PAUSE_SECONDS)
        lines = out.splitlines()
        shown = {"all": ["--- stdout", *lines, "--- stderr", *err.splitlines()], "last": lines[-1:], "code": []}
        return [f"exit code {code}", *shown[compare]]

    async def _output(self, command: str, namespace: str) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(str(self.kubectl), "--namespace", namespace, *shlex.split(command)),
            cwd=self.folder,
            env={**self.environment, "TZ": "UTC"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise AssertionError(f"{self.name}: kubectl {command} did not end in {_SECONDS} s") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return process.returncode, normalised(out.decode()), normalised(err.decode())


_HERE: Final = Path(__file__).parent
_CASES: Final = yaml.safe_load((_HERE / "kubectl_commands.yaml").read_text())
_NODES: Final = _HERE.parents[1] / "clusters" / "simulated" / "demo.yaml"
_NUMBERS: Final = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sessions(
    binaries: Binaries, choices: Choices, target: Target, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Session]]:
    """A user of the real cluster and one of the embedded, which have the same nodes and programs."""
    home = tmp_path_factory.mktemp("kubectl")
    async with AsyncExitStack() as stack:
        found = []
        for name in ("controlplane", "embedded"):
            cluster = make_cluster(name, load_nodes(_NODES), target, choices)
            await cluster.start()
            stack.push_async_callback(cluster.stop)
            # A home of its own: kubectl keeps there what it has found out about a server.
            environment = {**choices.environment, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(home / name)}
            found.append(Session(name, binaries["kubectl"], _HERE / "manifests", environment))
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(sessions: list[Session]) -> AsyncIterator[str]:
    """A namespace of the same name on both sides, ready for pods; removed in the end."""
    name = f"kubectl-{next(_NUMBERS)}"
    for session in sessions:
        made = await session.run(f"create namespace {name}", "default")
        assert made[0] == "exit code 0", f"{session.name}: {made}"
        await session.run("get serviceaccount default -o name", name, until="serviceaccount/default")
    try:
        yield name
    finally:
        await asyncio.gather(*(one.run(f"delete namespace {name} --wait=false", "default") for one in sessions))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["case"])
async def test_kubectl_says_the_same(sessions: list[Session], namespace: str, case: dict[str, Any]) -> None:
    """The promise of the case: stdout, stderr and exit code of each command are equal."""
    found = []
    for entry in case["steps"]:
        step = {"run": entry} if isinstance(entry, str) else dict(entry)
        command = step.pop("run")
        real, embedded = await asyncio.gather(*(session.run(command, namespace, **step) for session in sessions))
        differing = list(difflib.unified_diff(real, embedded, "controlplane", "embedded", lineterm="", n=3))
        found += [f"$ kubectl {command}", *differing] if differing else []
    assert not found, f"{case['promise']}:\n" + "\n".join(found)
