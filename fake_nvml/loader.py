"""How a program is put on the simulated cards: what ``fake-nvml exec`` changes in its environment.

Layer ``c``: the folder of the C library that is as old as the box's driver comes first in LD_LIBRARY_PATH; any program
finds it, in whatever language. Layer ``python``: a start-up hook comes first in PYTHONPATH; Python programs only, no
compiler. ``auto`` is ``c`` if that library can be had, else ``python``. The program's pid is the caller's either way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fake_nvml.fake_nvml_errors import FakeNvmlError
from fake_nvml.guard import STATE_VARIABLE

LAYERS: Final = ("auto", "c", "python")
_HOOK = Path(__file__).with_name("hook")
_LIBRARIES, _MODULES = "LD_LIBRARY_PATH", "PYTHONPATH"


def child_environment(
    layer: str, state: Path, environment: Mapping[str, str], library_folder: Callable[[], Path]
) -> tuple[dict[str, str], str]:
    """The program's environment, and the layer it is for.

    ``library_folder`` answers, after building it if need be, the folder of the C library. Raises what it raises
    (FakeNvmlError) for layer ``c``; ``auto`` goes on without it.
    """
    child = {**environment, STATE_VARIABLE: str(state.absolute())}
    folder = None
    if layer != "python":
        try:
            folder = library_folder()
        except FakeNvmlError:
            if layer == "c":
                raise
    if folder is None:
        _put_first(child, _MODULES, str(_HOOK))
        return child, "python"
    _put_first(child, _LIBRARIES, str(folder))
    # Within another exec: the hook would come before the library.
    _take_out(child, _MODULES, str(_HOOK))
    return child, "c"


def _put_first(environment: dict[str, str], variable: str, folder: str) -> None:
    known = filter(None, environment.get(variable, "").split(os.pathsep))
    environment[variable] = os.pathsep.join(dict.fromkeys([folder, *known]))


def _take_out(environment: dict[str, str], variable: str, folder: str) -> None:
    known = environment.get(variable, "").split(os.pathsep)
    kept = [entry for entry in known if entry != folder]
    if kept == known:
        return
    if kept:
        environment[variable] = os.pathsep.join(kept)
    else:
        environment.pop(variable, None)
