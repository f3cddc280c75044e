"""kubectl as a user runs it: one binary, one kubeconfig, one folder with the manifests."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.kubectl.texts import normalised

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
    kubeconfig: Path
    folder: Path
    environment: Mapping[str, str]

    async def run(self, command: str, namespace: str) -> Output:
        """Run one command line (the words after ``kubectl``) in a namespace."""
        # A home of its own: kubectl keeps there what it has found out about a server.
        home = self.folder / f"home-{self.name}"
        environment = {**self.environment, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home), "TZ": "UTC"}
        process = await asyncio.create_subprocess_exec(
            *(str(self.kubectl), "--namespace", namespace, *shlex.split(command)),
            cwd=self.folder,
            env=environment,
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
    output is compared (``all``, ``last`` line of stdout, ``sorted`` lines, ``code`` alone, ``none``); ``differs``: the row
    of e2e/parity/differences.yaml that has the reason why it is not the same.
    """

    run: str
    until: str = ""
    compare: str = "all"
    differs: str = ""

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
    "sorted": lambda output: Output(output.code, "\n".join(sorted(output.out.splitlines())), output.err),
    "code": lambda output: Output(output.code, "", ""),
    "none": lambda _: Output(0, "", ""),
}


def difference(command: str, real: Output, embedded: Output) -> str:
    """The lines in which two outputs differ; empty when they are equal."""
    if real == embedded:
        return ""
    lines = (real.text().splitlines(), embedded.text().splitlines())
    found = difflib.unified_diff(*lines, "controlplane", "embedded", lineterm="", n=3)
    return f"$ kubectl {command}\n" + "\n".join(found)
