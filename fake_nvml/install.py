"""Put the stand-in below pynvml in this process, and take it away again.

pynvml loads a library only while ``pynvml.nvmlLib`` is None, and keeps each function that it once looked up: both must
change together.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fake_nvml.fake_library import Library
from fake_nvml.guard import DRIVER_FOLDER, check_real_driver


def install(
    state_path: Path, *, on_purpose: bool = False, driver_folder: Path = DRIVER_FOLDER, pynvml: Any = None
) -> Library:
    """Let pynvml run on the state file from now on; call nvmlInit after it.

    ``on_purpose``: the user set FAKENVML_STATE. ``pynvml`` is the module, imported if it is not given. Raises
    RealDriverError (``guard``).
    """
    check_real_driver(on_purpose=on_purpose, driver_folder=driver_folder)
    library = Library(state_path)
    _put(_module(pynvml), library)
    return library


def uninstall(pynvml: Any = None) -> None:
    """Take a stand-in away; pynvml loads the system's library at the next nvmlInit. Another library stays."""
    module = _module(pynvml)
    if isinstance(module.nvmlLib, Library):
        _put(module, None)


def _module(given: Any) -> Any:
    return importlib.import_module("pynvml") if given is None else given


def _put(module: Any, library: Library | None) -> None:
    with module.libLoadLock:
        module.nvmlLib = library
        module._nvmlGetFunctionPointer_cache.clear()
