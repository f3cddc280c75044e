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
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    """A user of one cluster."""

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
