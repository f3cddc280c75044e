"""A shell in a node that stays: each ``docker exec`` costs a fifth of a processor second, and logs are read again and again."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

# Against hangs only, in seconds.
_END_SECONDS: Final = 10.0


class NodeShell:
    """``argv`` starts it, with commands on its standard input, at the first question and again after it has ended."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._argv = list(argv)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def output(self, command: str) -> str:
        """The output of a command, without its errors; "" if the node is down."""
        if self._process is not None:
            try:
                return self._ask(self._process, command)
            except OSError:
                # It ended with a former life of its node.
                self.close()
        self._process = subprocess.Popen(
            self._argv,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            return self._ask(self._process, command)
        except OSError:
            self.close()
            return ""

    def close(self) -> None:
        """End it, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            # The end of its input is the end of it.
            process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    @staticmethod
    def _ask(process: subprocess.Popen[bytes], command: str) -> str:
        """Raises OSError if it ends before it has answered."""
        assert process.stdin is not None
        assert process.stdout is not None
        end = f"\nend of {secrets.token_hex(16)}\n"
        process.stdin.write(f"{{ {command}\n}} </dev/null; printf '%s' '{end}'\n".encode())
        process.stdin.flush()
        said = bytearray()
        while not said.endswith(end.encode()):
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                raise BrokenPipeError
            said += piece
        return said[: -len(end)].decode(errors="replace")
