"""Promises of clusters.kind.node_shell, with a shell of this machine in a node's place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.kind.node_shell import NodeShell


@pytest.fixture
def shell() -> Iterator[NodeShell]:
    shell = NodeShell(["sh"], os.environ)
    yield shell
    shell.close()


def test_one_shell_answers_all_questions(shell: NodeShell) -> None:
    """Each answer is what its command printed: without errors, with no line end too few or too many, however long."""
    first = shell.output("echo $$")

    assert shell.output("printf a; echo b >&2; false") == "a"
    assert shell.output("cat") == ""
    assert shell.output("seq 100000") == "".join(f"{number}\n" for number in range(1, 100_001))
    assert shell.output("printf '\\n\\n'; printf '\\377'") == "\n\n\N{REPLACEMENT CHARACTER}"
    assert shell.output("echo $$") == first


def test_a_shell_that_ended_with_its_node_is_restarted(shell: NodeShell) -> None:
    """The next question is answered by another shell."""
    first = shell.output("echo $$")
    shell.output("kill -9 $$")

    assert shell.output("echo $$") not in ("", first)


def test_a_node_that_is_down_says_nothing(tmp_path: Path) -> None:
    """As soon as it is up it answers."""
    up = tmp_path / "up"
    shell = NodeShell(["sh", "-c", f"test -e {up} && exec sh"], os.environ)
    before = shell.output("echo yes")
    up.touch()

    assert (before, shell.output("echo yes")) == ("", "yes\n")
    shell.close()


def test_a_closed_shell_has_ended(shell: NodeShell) -> None:
    """Its process is gone."""
    pid = int(shell.output("echo $$"))
    shell.close()

    assert not Path(f"/proc/{pid}").exists()
