"""The start-up hook, in interpreters of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.state import State

ROOT = Path(__file__).parents[3]
HOOK = ROOT / "fake_nvml" / "hook"
COUNT = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"


@pytest.fixture
def environment(state_path: Path) -> dict[str, str]:
    """Variables that put a Python on three simulated cards."""
    State.create(state_path, Box.load("mixed", seed="node")).close()
    return {**os.environ, "FAKENVML_STATE": str(state_path), "PYTHONPATH": str(HOOK)}


def python(code: str, environment: dict[str, str], program: str = sys.executable) -> str:
    """The output of a Python of its own."""
    done = subprocess.run(
        [program, "-W", "error", "-c", code],
        env=environment, cwd="/", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pynvml_finds_the_simulated_cards(environment: dict[str, str]) -> None:
    """The environment alone is enough."""
    assert python(COUNT, environment) == "3"


def test_processes_that_python_starts_find_them_too(environment: dict[str, str]) -> None:
    """The variables are inherited."""
    code = f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', {COUNT!r}], text=True))"

    assert python(code, environment) == "3"


def test_a_program_without_pynvml_loads_nothing_of_ours(environment: dict[str, str]) -> None:
    """The hook costs other programs nothing."""
    assert python("import sys; print([name for name in sys.modules if 'nvml' in name])", environment) == "[]"


def test_the_module_looks_like_itself(environment: dict[str, str]) -> None:
    """The module's file and source are those of the real pynvml."""
    code = "import pynvml, inspect; print(pynvml.__file__, len(inspect.getsource(pynvml)) > 1000)"

    assert python(code, environment) == f"{pynvml.__file__} True"


def test_a_users_own_sitecustomize_runs_too(environment: dict[str, str], tmp_path: Path) -> None:
    """A user's own sitecustomize is imported as if ours were not there."""
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 'mine'")
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)

    assert python(f"print(mine); import sitecustomize; print(sitecustomize.__file__); {COUNT}", environment) == (
        f"mine\n{tmp_path}/sitecustomize.py\n3"
    )


def test_a_sitecustomize_that_imports_pynvml_gets_the_cards(environment: dict[str, str], tmp_path: Path) -> None:
    """The hook is in place before it runs."""
    (tmp_path / "sitecustomize.py").write_text("import pynvml")
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)

    assert python(COUNT, environment) == "3"


def test_without_the_variable_it_does_nothing(environment: dict[str, str]) -> None:
    """The hook leaves pynvml without a library if the variable is not set."""
    del environment["FAKENVML_STATE"]

    assert python("import pynvml; print(pynvml.nvmlLib)", environment) == "None"


def test_a_missing_pynvml_is_missed_as_ever(environment: dict[str, str]) -> None:
    """The error is Python's own."""
    code = """
import sys
sys.path = [entry for entry in sys.path if 'site-packages' not in entry]
try:
    import pynvml
except ModuleNotFoundError as error:
    print(error)
"""

    assert python(code, environment) == "No module named 'pynvml'"


def test_another_virtual_environment_needs_only_pynvml(environment: dict[str, str], tmp_path: Path) -> None:
    """The hook needs neither our package nor PyYAML there, and the folder of our package stays out of the import path."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "pynvml.py").symlink_to(pynvml.__file__)
    code = (
        f"{COUNT}; import importlib.util; print(importlib.util.find_spec('yaml'), importlib.util.find_spec('gpushare'))"
    )

    assert python(code, environment, str(tmp_path / "venv" / "bin" / "python")) == "3\nNone None"


def test_whoever_loads_the_library_by_its_name_gets_the_same_one(environment: dict[str, str]) -> None:
    """Some programs try to load it before they import pynvml; some have bindings of their own."""
    code = "import ctypes; a = ctypes.CDLL('libnvidia-ml.so.1'); import pynvml; pynvml.nvmlInit(); print(a is pynvml.nvmlLib)"

    assert python(code, environment) == "True"
    assert python("import ctypes; print(ctypes.cdll.LoadLibrary('libnvidia-ml.so').nvmlInit_v2())", environment) == "0"


def test_every_other_library_is_loaded_as_ever(environment: dict[str, str], tmp_path: Path) -> None:
    """The hook changes nothing of a load by another name, nor of a load of NVML's library by a full path."""
    code = f"""
import ctypes
print(ctypes.CDLL(None).getpid() > 0, isinstance(ctypes.CDLL(None, use_errno=True), ctypes.CDLL))
try:
    ctypes.CDLL({str(tmp_path / "libnvidia-ml.so.1")!r})
except OSError:
    print("not there")
"""

    assert python(code, environment) == "True True\nnot there"
