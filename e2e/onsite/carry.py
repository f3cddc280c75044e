"""``python -m e2e carry FOLDER``: all that ``python -m e2e machine`` needs, for a machine without a network.

The folder has this checkout, the wheels of its locked lists for this Python on this kind of machine, and the program ``run``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from e2e.report.sources import NOTE
from e2e.site import SiteError

_HELP: Final = "make a folder to carry to a GPU machine without a network; FOLDER/run there is `python -m e2e machine`"
_CHECKOUT: Final = Path(__file__).parents[2]
# The lists of .ci/constraints that the cases need; the compiler builds the cards that a recording is replayed on.
_LISTS: Final = ("build", "compiler", "product", "cluster", "harness")
_HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_RUN: Final = """#!/bin/sh
# Set the checkout up from the wheels beside it, and judge this machine's cards. Needs Python {version}.
set -eu
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
work=$(pwd)
python=${{PYTHON:-python{version}}}
command -v "$python" >/dev/null || {{ echo "run: $python is not there; the wheels are for Python {version}" >&2; exit 1; }}
"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{version}")' ||
  {{ echo "run: $python is not Python {version}, which the wheels are for" >&2; exit 1; }}
cd "$here"
if ! test -e ready; then
  echo "setting up $here (once, half a minute)"
  mkdir -p checkout
  tar -x -f checkout.tar -C checkout
  # Some distributions have Python without the pip that venv copies, so the one among the wheels is used.
  "$python" -m venv --without-pip venv
  pip() {{ PYTHONPATH=$(echo wheels/pip-*.whl) venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }}
  pip install --no-index --find-links wheels --require-hashes --no-deps {lists}
  pip install --no-index --no-deps --no-build-isolation --editable checkout --editable checkout/fake_nvml
  touch ready
fi
cd checkout
exec ../venv/bin/python -m e2e machine --report "$work/validation" "$@"
"""


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb; see ``look_verbs.add_verbs``."""
    parser = verbs.add_parser("carry", help=_HELP, description=_HELP)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="is made; must be empty if it is there")
    parser.add_argument(
        "--python",
        default=_HERE,
        metavar="VERSION",
        help="the Python of the GPU machine, as 3.12 (default: %(default)s, the one that runs this)",
    )
    parser.set_defaults(run=lambda arguments: carry(arguments.folder, arguments.python))


def carry(folder: Path, python: str = _HERE) -> int:
    """Fill the folder for this release of Python. Raises SiteError with the error of git or pip."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SiteError(f"{folder} is not empty")
    print(f"fetching wheels for Python {python} into {folder} (a minute)", flush=True)  # noqa: T201  # a command's output
    commit = _call("git", "-C", str(_CHECKOUT), "rev-parse", "--short=12", "HEAD")
    archive = ("archive", f"--add-virtual-file={NOTE}:{commit}", "--output", str((folder / "checkout.tar").absolute()))
    _call("git", "-C", str(_CHECKOUT), *archive, "HEAD")
    for name in _LISTS:
        # One after the other: two lists may have one file each of the same package.
        options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary=:all:")
        chosen = ("--python-version", python, "--dest", str(folder / "wheels"))
        _call(sys.executable, "-m", "pip", "download", *options, *chosen, f"--requirement={_path(name)}")
    run = folder / "run"
    lists = " ".join(f"--requirement checkout/{_path(name).relative_to(_CHECKOUT)}" for name in _LISTS)
    run.write_text(_RUN.format(version=python, lists=lists), encoding="utf-8")
    run.chmod(0o755)
    print(f"carry {folder} to the machine, and there: {folder.name}/run")  # noqa: T201
    return 0


def _path(name: str) -> Path:
    return _CHECKOUT / ".ci" / "constraints" / f"{name}.txt"


def _call(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise SiteError(f"{command[0]} is not there") from error
    except subprocess.CalledProcessError as error:
        raise SiteError(f"{' '.join(command[:4])} … ended with {error.returncode}: {error.stderr.strip()}") from error
