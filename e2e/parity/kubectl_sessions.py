"""kubectl as a user runs it: one binary, one kubeconfig, one folder with the manifests.

The parts of its output that cannot be equal on two clusters are replaced; nothing else is changed before outputs are compared:

* uids, resource versions, times of day, ages (in columns, and in descriptions; "0s" of a command's own too), the random ends
  of generated names and of events, the hashes of pod templates, addresses of the server, of services and of pods, the time
  in the annotation of the extender, the kubelet's numbers of containers: each becomes a word that names its kind;
* runs of blanks become two: the width of a column depends on its content;
* a remark that client-go logs when a watch ends is left out: whether it comes depends on the moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
class Output:
    """The result of a command, normalised."""

    code: int
    out: str
    err: str

    def text(self) -> str:
        """All of it, for people and for the comparison."""
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@dataclass(frozen=True, slots=True)
class Session:
    """A user of one cluster."""

    name: str
    kubectl: Path
    folder: Path
    environment: Mapping[str, str]

    async def run(self, command: str, namespace: str) -> Output:
        """Run one command line (the words after ``kubectl``) in a namespace."""
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
        return Output(process.returncode or 0, normalised(out.decode()), normalised(err.decode()))

    async def run_until(self, command: str, namespace: str, shows: str) -> Output:
        """Run a command again and again until its output has that text (after ``!``: has it no more)."""
        is_absent, wanted = shows.startswith("!"), shows.removeprefix("!")
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while True:
            output = await self.run(command, namespace)
            if (wanted in output.out + output.err) != is_absent:
                return output
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{self.name}: kubectl {command} never showed {shows!r}:\n{output.text()}")
            await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a case. ``until``: tried again until its output has this text; ``compare``: which part of the
    output is compared (``all``, ``last`` line of stdout, ``code`` alone).
    """

    run: str
    until: str = ""
    compare: str = "all"

    @classmethod
    def of(cls, entry: Any) -> Step:
        """A step from the YAML: the command, or a mapping of the fields."""
        return cls(entry) if isinstance(entry, str) else cls(**entry)

    async def on(self, session: Session, namespace: str) -> Output:
        """Run it; the part of the output that is compared."""
        command = self.run.replace("{namespace}", namespace)
        if self.until:
            output = await session.run_until(command, namespace, self.until)
        else:
            output = await session.run(command, namespace)
        return _PARTS[self.compare](output)


_PARTS: Final[Mapping[str, Callable[[Output], Output]]] = {
    "all": lambda output: output,
    "last": lambda output: Output(output.code, "\n".join(output.out.splitlines()[-1:]), ""),
    "code": lambda output: Output(output.code, "", ""),
}


def difference(command: str, real: Output, embedded: Output) -> str:
    """The lines in which two outputs differ; empty when they are equal."""
    if real == embedded:
        return ""
    lines = (real.text().splitlines(), embedded.text().splitlines())
    found = difflib.unified_diff(*lines, "controlplane", "embedded", lineterm="", n=3)
    return f"$ kubectl {command}\n" + "\n".join(found)
