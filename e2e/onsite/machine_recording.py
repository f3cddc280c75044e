"""The answers of this machine's NVML as a box of simulated cards, and the same box asked again in the lab."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import yaml

# By this name the dynamic loader finds the driver's own, as every program does.
_LIBRARY: Final = "libnvidia-ml.so.1"


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


def _content(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text)
    return content


async def _fake_nvml(*arguments: str, state: Path | None = None) -> str:
    """Its output. In a process of its own, because a driver may end or block the one that asks.

    The variable with the ``state`` allows simulated cards on a machine that has a driver.
    """
    command = (sys.executable, "-c", "import sys; from fake_nvml.main import main; sys.exit(main())", *arguments)
    environment = {**os.environ, **({"FAKENVML_STATE": str(state)} if state is not None else {})}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment)
    output, error = await process.communicate()
    if process.returncode:
        raise RecordingError(f"fake-nvml {arguments[0]}: {error.decode(errors='replace').strip()}")
    return output.decode()
