"""``python -m e2e carry FOLDER``: all that ``python -m e2e machine`` needs, for a machine without a network.

The folder has this checkout, the wheels of its locked lists for this Python on this kind of machine, and the program ``run``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from e2e.site.site_error import SiteError

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]

_HELP: Final = "make a folder to carry to a GPU machine without a network; FOLDER/run there is `python -m e2e machine`"
_CHECKOUT: Final = Path(__file__).parents[2]
# The lists of .ci/constraints that `make check` installs.
_LISTS: Final = ("build", "product", "cluster", "dev")
_RUN: Final = """#!/bin/sh
# Set the checkout up from the wheels beside it, and judge this machine's cards. Needs make and Python {version}.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${{PYTHON:-python{version}}}
command -v "$python" >/dev/null || {{ echo "run: $python is not there; the wheels are for Python {version}" >&2; exit 1; }}
command -v make >/dev/null || {{ echo "run: make is not there" >&2; exit 1; }}
mkdir -p "$here/checkout"
tar -x -f "$here/checkout.tar" -C "$here/checkout"
PIP_NO_INDEX=1 PIP_FIND_LINKS="$here/wheels" make -C "$here/checkout" PYTHON="$python" .venv/.ready
work=$(pwd)
cd "$here/checkout"
exec .venv/bin/python -m e2e machine --report "$work/validation" "$@"
"""


def add_verbs(verbs: Verbs) -> None:
    """The verb; see ``look_verbs.add_verbs``."""
    parser = verbs.add_parser("carry", help=_HELP, description=_HELP)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="is made; must be empty if it is there")
    parser.set_defaults(run=lambda arguments: carry(arguments.folder))


def carry(folder: Path) -> int:
    """Fill the folder. Raises SiteError with the error of git or pip."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SiteError(f"{folder} is not empty")
    print(f"fetching wheels for Python {_version()} into {folder} (a minute)", flush=True)  # noqa: T201
    _call("git", "-C", str(_CHECKOUT), "archive", "--output", str((folder / "checkout.tar").absolute()), "HEAD")
    lists = [f"--requirement={_CHECKOUT}/.ci/constraints/{name}.txt" for name in _LISTS]
    for one in lists:
        # One after the other: two lists may have one file each of the same package.
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary=:all:")
        _call(sys.executable, "-m", "pip", "download", *options, "--dest", str(folder / "wheels"), one)
    run = folder / "run"
    run.write_text(_RUN.format(version=_version()), encoding="utf-8")
    run.chmod(0o755)
    print(f"carry {folder} to the machine, and there: {folder.name}/run")  # noqa: T201  # a command's output
    return 0


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _call(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SiteError(f"{command[0]} is not there") from error
    except subprocess.CalledProcessError as error:
        raise SiteError(f"{' '.join(command[:4])} … ended with {error.returncode}: {error.stderr.strip()}") from error
