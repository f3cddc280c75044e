"""Runs at the start of each Python that ``fake-nvml exec`` started, and of its children: simulated cards for all of them.

A program that loads ``libnvidia-ml.so.1`` by its bare name through ctypes, as pynvml does, gets the stand-in. It does nothing
without FAKENVML_STATE, and runs the sitecustomize that it hides, if there is one. It works in other virtual environments
too: the stand-in needs the standard library only.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from types import ModuleType

_VARIABLE = "FAKENVML_STATE"
_LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")
_HERE = __file__.rpartition("/")[0]
_PACKAGE = _HERE.rpartition("/")[0]


def _change(ctypes: ModuleType, state: str) -> None:
    """Let ``ctypes.CDLL`` answer the stand-in, one for the process, for NVML's library."""
    found: list[object] = []

    def new(kind: type, name: object = None, *arguments: object, **more: object) -> object:
        if name not in _LIBRARIES:
            return object.__new__(kind)
        if not found:
            found.append(_stand_in(state))
        return found[0]

    ctypes.CDLL.__new__ = new


def _stand_in(state: str) -> object:
    from pathlib import Path

    if "fake_nvml" not in sys.modules:
        _import_beside()
    from fake_nvml.fake_library import Library

    return Library(Path(state))


def _import_beside() -> None:
    """Import the package that this folder belongs to, without putting what else lies beside it on the path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("fake_nvml", f"{_PACKAGE}/__init__.py", submodule_search_locations=[_PACKAGE])
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {_PACKAGE}")
    module = module_from_spec(spec)
    sys.modules["fake_nvml"] = module
    spec.loader.exec_module(module)


def _run_hidden() -> None:
    """Run the sitecustomize that a Python without this hook would have run; it takes this one's name."""
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if entry != _HERE])
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start() -> None:
    import os

    state = os.environ.get(_VARIABLE)  # noqa: TID251  # this file is a program's first line: no main above it reads
    if state:
        import ctypes

        _change(ctypes, state)
    _run_hidden()


if __name__ == "sitecustomize":
    _start()
