"""The stand-in for the loaded NVML library: put it into ``pynvml.nvmlLib``, and pynvml runs as on a driver.

pynvml looks each C function up as an attribute of that object; ``Library`` answers with one out of ``calls``, with one
that answers NOT_SUPPORTED, or, if the driver of the box is older than the function, with none at all. ``install`` puts it there.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fake_nvml.calls import CALLS, NEEDS_NO_INIT, Call, Loaded, not_supported
from fake_nvml.core.returns import Code, ReturnCodeError
from fake_nvml.eras import has_symbol
from fake_nvml.fake_session import EventSets, Session
from fake_nvml.guard import DRIVER_FOLDER, check_real_driver


class Library:
    """One library in one process."""

    def __init__(self, path: Path) -> None:
        session = Session(path)
        self._loaded = Loaded(session, EventSets(session))

    def __getattr__(self, name: str) -> Symbol:
        """A C function by name. Raises AttributeError if the box's driver is older than it."""
        if name.startswith("_") or not has_symbol(name, self._loaded.session.branch):
            raise AttributeError(f"this driver has no symbol {name}")
        return Symbol(self._loaded, name)


class Symbol:
    """One C function. ctypes lets callers set ``restype`` and ``argtypes``, so this does too."""

    def __init__(self, loaded: Loaded, name: str) -> None:
        self._loaded = loaded
        self._call: Call = CALLS.get(name, not_supported)
        self._needs_init = name not in NEEDS_NO_INIT
        self.__name__ = name
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call it: answers NVML's return code (nvmlErrorString: its text)."""
        if self._needs_init and not self._loaded.session.initialized:
            return Code.UNINITIALIZED
        try:
            answer = self._call(self._loaded, self.__name__, *arguments)
        except ReturnCodeError as error:
            return int(error.code)
        return Code.SUCCESS if answer is None else answer


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
