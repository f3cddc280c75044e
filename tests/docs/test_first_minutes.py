"""The first five minutes: the demo prints what the README shows, and what it prints at its end works as pasted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

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


def left_out(shown: str, printed: str) -> list[str]:
    """The lines of a page that a program does not print, in this order; a line that ends with … is the begin of one."""
    rest = iter(lines_of(printed))
    return [line for line in lines_of(shown) if not any(one.startswith(line.removesuffix(" …")) for one in rest)]


def block_with(text: str) -> str:
    """The block of the README that has this text."""
    (found,) = [block.text for block in blocks_of("README.md", README) if text in block.text]
    return found


def test_the_demo_and_its_six_commands_work(tmp_path: Path, binaries: Binaries) -> None:
    """The README shows lines of the demo and of explain; the commands at the demo's end start a cluster and ask it."""
    shell = Shell(tmp_path / "site", binaries["kubectl"])
    printed = shell.run("make demo")
    assert left_out(block_with("every step was as said"), printed) == []

    assert "/gpushare-scheduler/ui" not in printed
    start, *commands = re.findall(r"^  (.*?) +# ", printed.partition("Six commands")[2], re.MULTILINE)
    assert (start.startswith("make up"), len(commands)) == (True, 5)
    with shell.cluster(start) as living:
        assert "the page: http://127.0.0.1:" in living
        answers = shell.run("\n".join(commands))
    assert left_out(block_with("Why:"), answers) == []
    # Explain and simulate agree on the pod that waits.
    assert answers.count("  fragmented: the node has enough free in sum, but no single card has") == 2
    assert "Placed:         0 of 1" in answers


@pytest.mark.exhaustive("the demo once more; up prints the same lines")
def test_a_demo_that_is_kept_has_its_page(tmp_path: Path, binaries: Binaries) -> None:
    """Its cluster stays until Ctrl-C, with the page's address, and explain answers about the demo's own pod."""
    shell = Shell(tmp_path / "site", binaries["kubectl"])
    with shell.cluster("make demo ARGS=--keep") as printed:
        assert "the page: http://127.0.0.1:" in printed
        assert "Six commands" not in printed
        (export,) = re.findall(r"^  export .*\n", printed, re.MULTILINE)
        assert "has card 0 of node node3" in shell.run(f"{export}kubectl gpushare explain latecomer")


def test_a_line_that_is_not_printed_is_found() -> None:
    """Times and blanks do not count; a missing line, another order and another text do."""
    printed = "[  1.0 s] one\n  two   and a half\nthree\n"
    assert left_out("[  0.0 s] one\ntwo and …\nthree\n", printed) == []
    assert left_out("three\none\n", printed) == ["one"]
    assert left_out("four\n", printed) == ["four"]
