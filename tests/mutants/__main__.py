"""``python -m tests.mutants``: change the cores in small ways, and expect a unit test to fail for each (mutmut; ``make mutants``).

A change that no test sees must stand in ``accepted.yaml`` with its reason. Results are kept in ``mutants/``: the next run tests
what is new. If a test changed, it also tests again what survived; with --fresh, everything. Exit code 1 if a core's score is
below 90 %, a survivor is not accepted, or an accepted one does not survive.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Final

from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants, walk_mutatable_files
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

from tests.mutants.accepted_survivors import findings, load

_RESULTS: Final = Path("mutants")
_CORES: Final = (
    "gpushare.model",
    "gpushare.extender.core",
    "gpushare.deviceplugin.core",
    "gpushare.setup.core",
    "gpushare.kubectl_inspect.core",
    "gpushare.kubectl_gpushare.core",
)
_WANTED: Final = 0.9
# A mutant that never stops growing ends here.
_MEMORY: Final = 6 << 30
# A line that is shorter does not say which line of the function it is.
_SHORT: Final = 12
_KILLED: Final = ("killed", "timeout", "segfault")
# mutmut calls exit code 255 a timeout, but it is an error of pytest: a test's id that it does not find, for example.
_STATUSES: Final = status_by_exit_code | {255: "its tests did not run"}


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(_CORES), help="packages or modules (default: the cores)")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--processes", type=int, default=2, help="how many mutants at once (default: %(default)s)")
    flags = parser.parse_args()
    if flags.fresh:
        shutil.rmtree(_RESULTS, ignore_errors=True)
    generate(flags.processes)
    if untested := [name for name, status in statuses(flags.modules).items() if status == "not checked"]:
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(flags.processes)]
        print(f"{len(untested)} mutants; see {_RESULTS / 'run.log'}", flush=True)
        with (_RESULTS / "run.log").open("w") as log:
            subprocess.run([*command, *untested], stdout=log, stderr=subprocess.STDOUT, check=True)
    return report(statuses(flags.modules), flags.modules)


def generate(processes: int) -> None:
    """Write the mutants of new and changed functions; if a test changed, forget which survived."""
    shutil.rmtree(_RESULTS / "tests", ignore_errors=True)
    _RESULTS.mkdir(exist_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        copy_src_dir()
        copy_also_copy_files()
        create_mutants(processes)
    digest, known = sha256(), _RESULTS / "tests.sha256"
    for path in sorted(Path("tests").rglob("*.py")):
        digest.update(path.read_bytes())
    if known.exists() and known.read_text() != digest.hexdigest():
        (_RESULTS / "mutmut-stats.json").unlink(missing_ok=True)
        for data in files():
            codes = data.exit_code_by_key.items()
            data.exit_code_by_key = {name: code if is_killed(_STATUSES[code]) else None for name, code in codes}
            data.save()
    known.write_text(digest.hexdigest())


def files() -> list[SourceFileMutationData]:
    """The results of each file."""
    every = [SourceFileMutationData(path=path) for path in walk_mutatable_files()]
    for data in every:
        data.load()
    return every


def statuses(modules: list[str]) -> dict[str, str]:
    """The status of each mutant in these modules, by its name."""
    every = {name: _STATUSES[code] for data in files() for name, code in data.exit_code_by_key.items()}
    return {
        name: status for name, status in every.items() if name.startswith(tuple(f"{module}." for module in modules))
    }


def is_killed(status: str) -> bool:
    """A mutant that hangs is seen, too."""
    return status in _KILLED


def report(mutants: dict[str, str], modules: list[str]) -> int:
    """Print what is wrong, and the scores; the exit code."""
    wrong = findings(load(), [described(name) for name, status in mutants.items() if not is_killed(status)], modules)
    for line in wrong:
        print(line)
    low = 0
    for core in _CORES:
        if counts := Counter(status for name, status in mutants.items() if name.startswith(f"{core}.")):
            score = sum(count for status, count in counts.items() if is_killed(status)) / counts.total()
            low += score < _WANTED
            print(f"{core}: {score:.1%} of {counts.total()} killed ({dict(counts)})")
    return int(low > 0 or bool(wrong))


def described(name: str) -> tuple[str, str]:
    """Its function, and the line that it has; if that is short, the one that the function has as well."""
    function = re.sub(r"\.x(_|ǁ)", ".", name.partition("__mutmut_")[0]).replace("ǁ", ".")
    lines = get_diff_for_mutant(name).splitlines()[2:]
    before, after = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return function, after if len(after) > _SHORT else f"{before} => {after}"


if __name__ == "__main__":
    sys.exit(main())
