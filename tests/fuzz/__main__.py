"""``python -m tests.fuzz``: feed the extender's edge with what a coverage-guided fuzzer makes (atheris).

Inputs that reach new code are kept in ``tests/data/fuzz``. Exit code 0 if nothing broke; else atheris's, with the input in a file.
"""

from __future__ import annotations

import argparse
import base64
import logging
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["gpushare", "msgspec"]):
    from tests.fuzz.extender_edge import Edge

from tests.fuzz.seeds import FOUND, beginnings, found, framed

# Longer inputs reach nothing that shorter ones do not.
_LONGEST = 4096


def main() -> None:
    """Does not return: atheris ends the process."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="how long (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder of all that was found (default: one that is removed)")
    parser.add_argument("--collect", type=Path, help="write the inputs of this folder into tests/data/fuzz, and end")
    flags = parser.parse_args()
    if flags.collect:
        collect(flags.collect)
        return
    logging.disable(logging.CRITICAL)
    folder = flags.keep or Path(tempfile.mkdtemp(prefix="gs-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*beginnings(), *found()]):
        (folder / f"seed-{number:04}").write_bytes(data)
    edge = Edge()
    atheris.Setup(
        [sys.argv[0], str(folder), f"-max_total_time={flags.seconds}", f"-max_len={_LONGEST}", "-print_final_stats=1"],
        lambda data: edge.feed(framed(data)) and None,
    )
    atheris.Fuzz()


def collect(folder: Path) -> None:
    """One line an input, the shortest first."""
    known = set(beginnings())
    inputs = sorted({path.read_bytes() for path in folder.iterdir()} - known, key=lambda data: (len(data), data))
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    FOUND.write_text("".join(base64.b64encode(data).decode() + "\n" for data in inputs))
    print(f"{len(inputs)} inputs in {FOUND}")  # noqa: T201  # what the command says


if __name__ == "__main__":
    main()
