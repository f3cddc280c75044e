"""The tests' end of ``probe``: pynvml's functions as methods, running in a process of their own."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


class CallError(Exception):
    """A call that raised: the class of pynvml's error, and NVML's code if it has one."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__(f"{reply['error']}: {reply['text']}")
        self.name: str = reply["error"]
        self.code: int | None = reply["code"]


class Probed:
    """One process with one pynvml on one library. ``state`` is what its library shows, None for a real driver's."""

    def __init__(self, pynvml_folder: str, state_path: Path, environment: Mapping[str, str]) -> None:
        self.state_path = state_path
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("probe.py")), pynvml_folder],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments, **named: self.ask({"call": name, "arguments": arguments, "named": named})

    def code(self, name: str, *arguments: Any, **named: Any) -> int | None:
        """NVML's code of a call, 0 if it succeeds."""
        return self._code({"call": name, "arguments": arguments, "named": named})

    def wait_code(self, events: Any, timeout_ms: int = 0) -> int | None:
        """NVML's code of a wait for an event."""
        return self._code({"wait": [events, timeout_ms]})

    def raw(self, name: str, *arguments: Any) -> tuple[int, list[Any]]:
        """A C function below pynvml: its code, and what it wrote through ``{"out": n}`` and ``{"buffer": n}``."""
        answer = self.ask({"raw": name, "arguments": arguments})
        return answer["code"], answer["wrote"]

    def has(self, symbol: str) -> bool:
        """Whether the loaded library has a symbol; after nvmlInit."""
        return bool(self.ask({"has": symbol}))

    def reset(self) -> None:
        """Shut the library down, and be the first user again."""
        self.ask({"reset": 1})

    def _code(self, request: dict[str, Any]) -> int | None:
        try:
            self.ask(request)
        except CallError as error:
            return error.code
        return 0

    def ask(self, request: dict[str, Any]) -> Any:
        """Send a request and wait for its answer."""
        self.send(request)
        return self.receive()

    def send(self, request: dict[str, Any]) -> None:
        """Send a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The answer to the oldest request. Raises CallError."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        assert line, self._process.stderr.read()[-8000:]
        reply = json.loads(line)
        if "error" in reply:
            raise CallError(reply)
        return reply["result"]

    def answered(self) -> bool:
        """Would ``receive`` answer immediately?"""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def close(self) -> str:
        """End it; answers what it wrote on its standard error."""
        _, errors = self._process.communicate()
        assert self._process.returncode == 0, errors[-8000:]
        return errors
