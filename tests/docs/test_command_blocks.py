"""The blocks of all pages: commands run as a reader pastes them, or say why not; documents can be read.

One embedded cluster serves all pages, and each page is one shell, so that what a block exports is there in the next one.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import yaml

from clusters.controlplane.binaries import Binaries
from tests.docs.command_blocks import COMMANDS, LANGUAGES, NOT_RUN, REASONS, RUN, RUN_BY, Block, blocks_of
from tests.docs.pasting import Shell
from tests.tracked_files import ROOT, tracked

BLOCKS: Final = {page: list(blocks_of(page, (ROOT / page).read_text())) for page in tracked() if page.endswith(".md")}
ALL: Final = [block for blocks in BLOCKS.values() for block in blocks]
# Its last block deletes the policies, so it is the last page.
LAST: Final = "docs/install/from-the-original.md"
RUNNING: Final = sorted({block.page for block in ALL if block.how == RUN}, key=lambda page: (page == LAST, page))
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
    "python": ast.parse,
}
# Nodes whose cards are alike, as the original needs them, and one for the extender's pod.
NODES: Final = """nodes:
- {name: control, box: none, labels: {node-role.kubernetes.io/control-plane: ""}}
- {name: node1, box: gtx1080tix1, driver: "418.87"}
- {name: node2, box: t4x1, driver: "418.87"}
- {name: node3, box: t4x2, driver: "418.87"}
"""
# A pod that runs and one that waits, for the commands that ask about pods.
PODS: Final = (
    "kubectl apply -f clusters/deploy/samples/binpack-1-statefulset.yaml -f clusters/deploy/samples/latecomer.yaml"
)


def test_each_block_has_a_language_and_a_marker() -> None:
    """No block is of an unknown kind, and each block of commands is run or has the reason why not."""
    assert [one.place for one in ALL if one.language not in LANGUAGES] == []
    assert [one.place for one in ALL if (one.language == COMMANDS) != bool(one.how)] == []


def test_markers_give_known_reasons_and_files_that_exist() -> None:
    """A reason is one of the list, each of which is in use; a file with the tests of a block is there."""
    assert {one.detail for one in ALL if one.how == NOT_RUN} == set(REASONS)
    assert [one.place for one in ALL if one.how == RUN_BY and one.detail not in tracked()] == []


@pytest.mark.parametrize("block", [one for one in ALL if one.language in READERS], ids=lambda one: one.place)
def test_documents_on_pages_can_be_read(block: Block) -> None:
    """YAML, TOML and Python are well formed."""
    assert READERS[block.language](block.text)


def test_the_reader_finds_what_is_not_marked() -> None:
    """A block of commands without a marker on the line before has none, and a replacement of nothing is refused."""
    text = "<!-- run: NODE=n -->\n\n```sh\nls\n```\n- one\n\n  <!-- run: NODE=n -->\n  ```sh\n  ls NODE1\n  ```\n```\nls\n```\n"
    first, second, third = blocks_of("p", text)
    assert [(one.line, one.language, one.how, one.text) for one in (first, second, third)] == [
        (3, "sh", "", "ls\n"),
        (9, "sh", RUN, "ls NODE1\n"),
        (12, "", "", "ls\n"),
    ]
    with pytest.raises(ValueError, match="p:9: the block has no 'NODE' to replace"):
        second.script()


@pytest.fixture(scope="module")
def shell(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """On a cluster that ``python -m clusters up`` started."""
    folder = tmp_path_factory.mktemp("pages") / "site"
    made = Shell(folder, binaries["kubectl"])
    (folder / "nodes.yaml").write_text(NODES)
    with made.cluster(".venv/bin/python -m clusters up --nodes nodes.yaml") as printed:
        (export,) = re.findall(r"^  export .*\n", printed, re.MULTILINE)
        (extender,) = re.findall(r"the page: (http://\S+)/ui", printed)
        made.begins_with += f"{export}export EXTENDER={extender}\n"
        made.run(PODS)
        yield made


def kustomization_of(page: str) -> str:
    """The one on the page; else that of the first page, with the form that the page names."""
    own = [one.text for one in BLOCKS[page] if "kind: Kustomization" in one.text and "../gpushare/" in one.text]
    (common,) = [one.text for one in BLOCKS["docs/install/index.md"] if "kind: Kustomization" in one.text]
    form = re.search(r"`\.\./gpushare/clusters/deploy/(overlays/[\w-]+)`", (ROOT / page).read_text())
    return own[0] if own else common.replace("deploy/base", f"deploy/{form[1]}" if form else "deploy/base")


@pytest.mark.parametrize("page", RUNNING)
def test_commands_of_a_page_run(shell: Shell, page: str) -> None:
    """Each command ends with 0, one after the other, from the page's first block to its last."""
    (shell.folder / "kustomization.yaml").write_text(kustomization_of(page))
    blocks = [one for one in BLOCKS[page] if one.how == RUN]
    shell.run("".join(f"echo '# {one.place}'\n{one.script()}" for one in blocks))
