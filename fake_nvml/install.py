"""Put the stand-in below pynvml in this process."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fake_nvml.fake_library import Library
from fake_nvml.guard import DRIVER_FOLDER, check_real_driver


def install(state_path: Path, *, on_purpose: bool = False, driver_folder: Path = DRIVER_FOLDER) -> Library:
    """Let pynvml run on the state file from now on; call nvmlInit after it.

    ``on_purpose``: the user set FAKENVML_STATE. Raises RealDriverError (``guard``).
    """
    check_real_driver(on_purpose=on_purpose, driver_folder=driver_folder)
    pynvml: Any = importlib.import_module("pynvml")
    library = Library(state_path)
    with pynvml.libLoadLock:
        # pynvml loads a library only while there is none, and keeps each function that it once looked up.
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
    return library
