"""This machine's NVML beside the simulated one: its answers as a box, that box asked again, and the promises of both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from e2e import commands
from fake_nvml.guard import DRIVER_FOLDER

# By this name the dynamic loader finds the driver's own, as every program does.
_LIBRARY: Final = "libnvidia-ml.so.1"
_ROOT: Final = Path(__file__).parents[2]
_CONFORMANCE: Final = _ROOT / "tests" / "fake_nvml" / "conformance"
# The end of the output of a pytest that could not run, in lines.
_LAST_LINES: Final = 5


class RecordingError(Exception):
    """``fake-nvml`` could not do it; the text is its error."""


async def record() -> dict[str, Any]:
    """The content of a box. Raises RecordingError."""
    return _content(await _fake_nvml("record", "--library", _LIBRARY))


async def replay(recording: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Put a recording into simulated cards, and record these. Raises RecordingError."""
    box, state = folder / "recorded.yaml", folder / "state"
    box.write_text(yaml.safe_dump(recording), encoding="utf-8")
    await _fake_nvml("init", "--state", str(state), "--box", str(box), state=state)
    return _content(await _fake_nvml("record", "--state", str(state), state=state))


async def conformance() -> list[str] | None:
    """The promises of ``tests/fake_nvml/conformance`` for any driver that this one breaks; None without a driver."""
    if not DRIVER_FOLDER.exists():
        return None
    # Its own conftest alone: those above need what a carried folder has not.
    options = ("-q", "--no-header", "-p", "no:cacheprovider", "--confcutdir", str(_CONFORMANCE), "-k", "real")
    command = (sys.executable, "-m", "pytest", *options, str(_CONFORMANCE / "test_any_driver.py"))
    # pytest cuts the reason of a failure to the width of the terminal.
    done = await commands.run(*command, folder=_ROOT, variables={"COLUMNS": "250"})
    lines = done.said.splitlines()
    broken = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return broken or ([] if done.code == 0 else lines[-_LAST_LINES:])


def _content(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text)
    return content


async def _fake_nvml(*arguments: str, state: Path | None = None) -> str:
    """Its output. In a process of its own, because a driver may end or block the one that asks.

    The variable with the ``state`` allows simulated cards on a machine that has a driver.
    """
    program = "import sys; from fake_nvml.main import main; sys.exit(main())"
    variables = {} if state is None else {"FAKENVML_STATE": str(state)}
    done = await commands.python("-c", program, *arguments, variables=variables)
    if done.code:
        raise RecordingError(f"fake-nvml {arguments[0]}: {done.errors.strip()}")
    return done.output
