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
# The program of the folder, with the release of Python and the lists left open.
_RUN: Final = Path(__file__).with_name("carried_run.sh")


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
    text = _RUN.read_text(encoding="utf-8").replace("@VERSION@", python).replace("@LISTS@", lists)
    run.write_text(text, encoding="utf-8")
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
