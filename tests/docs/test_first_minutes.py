"""The first five minutes: the demo prints what the README shows, and what it prints at its end works as pasted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from clusters.controlplane.binaries import Binaries
from tests.docs.command_blocks import blocks_of
from tests.docs.pasting import Shell
from tests.tracked_files import ROOT

README: Final = (ROOT / "README.md").read_text()
# The time of a step, and the width of a column, differ from run to run.
_TIME: Final = re.compile(r"^\[ *\d+\.\d s\] ")


def lines_of(text: str) -> list[str]:
    """Each without its time, with single blanks."""
    return [" ".join(_TIME.sub("", line).split()) for line in text.splitlines()]


def test_the_demo_and_its_six_commands_work(tmp_path: Path, binaries: Binaries) -> None:
    """The README shows lines of the demo, in their order; the commands at its end start a cluster and ask it."""
    shell = Shell(tmp_path / "site", binaries["kubectl"])
    printed = shell.run("make demo")
    (shown,) = [block.text for block in blocks_of("README.md", README) if "binpack-1-0" in block.text]
    rest = iter(lines_of(printed))
    missing = [line for line in lines_of(shown) if not any(one.startswith(line.removesuffix(" …")) for one in rest)]
    assert missing == []

    assert "/gpushare-scheduler/ui" not in printed
    start, *commands = re.findall(r"^  (.*?) +# ", printed.partition("Six commands")[2], re.MULTILINE)
    assert (start.startswith("make up"), len(commands)) == (True, 5)
    with shell.cluster(start) as living:
        assert "the page: http://127.0.0.1:" in living
        answers = shell.run("\n".join(commands))
    assert "State:     waits" in answers
    assert "Ctrl-C" not in answers
