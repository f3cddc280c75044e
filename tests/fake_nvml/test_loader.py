"""The environment of a program on simulated cards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fake_nvml.loader as loader_module
from fake_nvml.fake_nvml_errors import FakeNvmlError, LayerError
from fake_nvml.loader import child_environment

HOOK = str(Path(loader_module.__file__).with_name("hook"))
FOLDER = Path("/cache/535")


def here() -> Path:
    """The library in C can be had."""
    return FOLDER


def nowhere() -> Path:
    """The library in C cannot be had."""
    raise LayerError("no compiler")


@pytest.mark.parametrize(
    ("layer", "folder", "used"),
    [
        ("auto", here, "c"),
        ("c", here, "c"),
        ("python", here, "python"),
        ("auto", nowhere, "python"),
        ("python", nowhere, "python"),
    ],
)
def test_each_layer_has_its_variable(layer: str, folder: object, used: str) -> None:
    """The library in C needs the loader's path, the one in Python the import path."""
    environment, got = child_environment(layer, Path("/run/state"), {"A": "b"}, folder)  # type: ignore[arg-type]

    path = {"LD_LIBRARY_PATH": str(FOLDER)} if used == "c" else {"PYTHONPATH": HOOK}
    assert (environment, got) == ({"A": "b", "FAKENVML_STATE": "/run/state", **path}, used)


def test_the_library_in_c_is_not_replaced_where_it_was_asked_for() -> None:
    """A request for the library in C is an error if there is no compiler."""
    with pytest.raises(FakeNvmlError, match="no compiler"):
        child_environment("c", Path("/run/state"), {}, nowhere)


def test_what_was_on_the_path_comes_after() -> None:
    """The program's own entries stay."""
    known = {"LD_LIBRARY_PATH": "/a:/b", "PYTHONPATH": "/c"}

    assert child_environment("c", Path("/s"), known, here)[0]["LD_LIBRARY_PATH"] == f"{FOLDER}:/a:/b"
    assert child_environment("python", Path("/s"), known, here)[0]["PYTHONPATH"] == f"{HOOK}:/c"


def test_within_another_exec_nothing_is_twice() -> None:
    """The environment is the same as after one exec."""
    for layer in ("c", "python"):
        once, _ = child_environment(layer, Path("/s"), {"PYTHONPATH": "/c"}, here)
        twice, _ = child_environment(layer, Path("/s"), once, here)

        assert twice == once


@pytest.mark.parametrize("path", ["", "/mine", "/mine::/other"])
def test_outer_exec_hook_does_not_hide_the_library_in_c(path: str) -> None:
    """The hook is taken off the import path."""
    outer, _ = child_environment("python", Path("/s"), {"PYTHONPATH": path} if path else {}, here)

    inner, _ = child_environment("c", Path("/s"), outer, here)

    assert HOOK not in inner.get("PYTHONPATH", "").split(os.pathsep)
    assert inner.get("PYTHONPATH", "").split(os.pathsep) == [*filter(None, path.split(":"))] or not path


def test_a_path_of_the_programs_own_stays_as_it_is() -> None:
    """A program's own import path stays as it is, even with an empty entry."""
    environment, _ = child_environment("c", Path("/s"), {"PYTHONPATH": "/mine::/other"}, here)

    assert environment["PYTHONPATH"] == "/mine::/other"
