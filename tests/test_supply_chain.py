"""Everything that this repository fetches has a hash, a digest or a commit id, and nothing fetches a stranger's ``gpushare``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.pins import findings, unpinned_requirements
from tests.tracked_files import ROOT, tracked

LISTS = ROOT / ".ci" / "constraints"
# Files in which such commands stand for people or as examples.
NOT_RUN = (".md", ".txt", ".json", ".sum", ".svg", ".png")
EXAMPLES = ("tests/pins.py", "tests/test_supply_chain.py")
DIGEST = "@sha256:" + "0" * 64
COMMIT = "@" + "0" * 40


def is_read(name: str) -> bool:
    """Is it a script, a Dockerfile, a workflow, Python, or YAML?"""
    path = Path(name)
    if name in EXAMPLES or path.suffix in NOT_RUN:
        return False
    known = path.suffix in (".py", ".sh", ".yaml", ".yml", ".dockerfile", ".mk")
    return known or path.name.startswith(("Dockerfile", "Makefile")) or (ROOT / name).read_bytes().startswith(b"#!")


def test_nothing_is_fetched_without_a_pin() -> None:
    """In every script, Dockerfile, workflow and Python file of the repository."""
    read = [name for name in tracked() if is_read(name)]
    found = [one for name in read for one in findings(name, (ROOT / name).read_text())]

    assert found == []
    assert {"Makefile", "Dockerfile", ".ci/run", ".ci/lock", ".github/workflows/kind.yaml"} <= set(read)


@pytest.mark.parametrize("path", sorted(LISTS.rglob("*.txt")), ids=lambda path: path.relative_to(LISTS).as_posix())
def test_each_listed_distribution_has_hashes(path: Path) -> None:
    """Each listed distribution has hashes and one version, and the list names no index."""
    text = path.read_text()

    assert "==" in text
    assert unpinned_requirements(text) == []
    assert not re.search(r"https?://|--index|--find-links|--trusted-host", text)


def test_the_lists_have_one_version_of_each() -> None:
    """The images have what the tests had."""
    versions: dict[str, set[str]] = {}
    for path in LISTS.glob("*.txt"):
        for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", path.read_text()):
            versions.setdefault(name, set()).add(version)

    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_every_go_module_has_its_checksums() -> None:
    """Unless it needs no other."""
    modules = [ROOT / name for name in tracked() if Path(name).name == "go.mod"]
    bare = [path for path in modules if "require" in path.read_text() and not path.with_name("go.sum").is_file()]

    assert modules
    assert bare == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Makefile", "x:\n\t$(BIN)/python -m pip --quiet install \\\n\t--constraint c.txt somewhat"),
        (".ci/run", "pipx run somewhat"),
        (".ci/run", "uv pip install somewhat"),
        (".ci/run", "curl -sSf https://example.org/install | sh -s -- -y"),
        (".ci/run", "bash <(curl -s https://example.org/install)"),
        (".ci/run", "curl -Lo /usr/local/bin/kind https://example.org/kind"),
        (".ci/run", "go install example.org/tool@latest"),
        (".ci/run", "GOFLAGS=-mod=mod go build ./..."),
        (".ci/run", "npm install left-pad"),
        (".ci/run", "cargo install ripgrep"),
        (".ci/run", "gem install rake"),
        (".ci/run", "apt-get install --allow-unauthenticated tool"),
        (".ci/run", "git clone https://example.org/tool.git"),
        (".ci/run", "docker pull busybox:1.36"),
        ("Dockerfile", "FROM python:3.13-slim"),
        ("Dockerfile", "ARG BASE=python:3.13-slim\nFROM ${BASE}"),
        ("Dockerfile", f"FROM python{DIGEST} AS one\nCOPY --from=busybox:1.36 /bin /bin"),
        ("Dockerfile", f"FROM python{DIGEST}\nRUN pip install somewhat"),
        ("Dockerfile", f"# syntax=docker/dockerfile:1\nFROM python{DIGEST}"),
        ("Dockerfile", f"FROM python{DIGEST}\nADD https://example.org/tool /tool"),
        (".github/workflows/a.yaml", "steps:\n  - uses: actions/checkout@v4"),
        (".github/workflows/a.yaml", "steps:\n  - uses: docker://alpine:3"),
        (".github/workflows/a.yaml", "container: python:3.13"),
        (".github/workflows/a.yaml", "node-image:\n  - kindest/node:v1.36.4"),
        (".github/workflows/a.yaml", "env:\n  BUILDER: moby/buildkit:v0.31.2"),
        ("load/a.py", 'run([python, "-m", "pip", "install", "somewhat"])'),
        ("load/a.py", 'def f():\n    pip("install", "--no-deps", "somewhat")\nX = "pip"'),
    ],
)
def test_a_planted_example_is_found(name: str, text: str) -> None:
    """One of each kind, with its place."""
    assert re.match(rf"{re.escape(name)}:\d+: ", "\n".join(findings(name, text)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Makefile", "x:\n\t$(BIN)/python -m pip install --require-hashes --requirement a.txt # pip install x"),
        ("Makefile", "x:\n\t$(PIP) install --no-deps --no-build-isolation --editable ."),
        (".ci/run", "go build ./..."),
        (".ci/run", "curl --fail http://127.0.0.1:8080/healthz"),
        ("Dockerfile", f"ARG BASE=python:3.13{DIGEST}\nARG VERSION=unknown\nFROM ${{BASE}} AS one\nFROM one AS two\nFROM scratch"),
        (".github/workflows/a.yaml", f"- uses: actions/checkout{COMMIT} # v4.4.0\n- uses: ./.github/actions/own"),
        (".github/workflows/a.yaml", f"image: postgres:16{DIGEST}"),
        (".github/workflows/a.yaml", f"env:\n  BUILDER: moby/buildkit:v0.31.2{DIGEST}"),
        ("load/a.py", 'run([python, "-m", "pip", "install", "--require-hashes", "--requirement", "a.txt"])'),
    ],
)  # fmt: skip
def test_what_is_pinned_is_no_finding(name: str, text: str) -> None:
    """A pinned source is no finding, nor is the text of a comment."""
    assert findings(name, text) == []


@pytest.mark.parametrize(
    "entry", ["somewhat", "somewhat>=1 --hash=sha256:" + "0" * 64, "somewhat==1", "somewhat==1 --hash=sha256:00"]
)
def test_a_list_with_an_open_entry_is_found(entry: str) -> None:
    """No version, no hash, or a part of one."""
    good = "other==1 \\\n    --hash=sha256:" + "0" * 64 + "\n"

    assert unpinned_requirements(f"{good}{entry}\n{good}") == [entry]


# An installer, and behind it the bare name, with or without extras.
ADVICE = re.compile(r"(?:pip3?|pipx|uv|uvx)\b[^\n]*?[\s'\"`]gpushare(?![-\w./:])")


def test_no_file_advises_to_install_the_strangers_package() -> None:
    """A user that follows such advice installs a program that is not ours."""
    texts = {name: (ROOT / name).read_text(errors="replace") for name in tracked() if name not in EXAMPLES}

    assert [f"{name}: {match[0]}" for name, text in texts.items() for match in ADVICE.finditer(text)] == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install gpushare", True),
        ("pip install 'gpushare[bench]'", True),
        ("python -m pip install --upgrade gpushare", True),
        ("uv pip install gpushare", True),
        ("pip install gpushare-scheduler", False),
        ("pip install '.[bench]'", False),
        ("pip install gpushare.whl", False),
    ],
)
def test_such_advice_would_be_found(text: str, is_found: bool) -> None:
    """The search finds each way of writing it, and no other name."""
    assert bool(ADVICE.search(text)) is is_found


def test_the_distribution_has_its_own_name() -> None:
    """The product's distribution is called gpushare-scheduler; its import name stays."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["name"] == "gpushare-scheduler"


def test_no_extra_depends_on_the_strangers_package() -> None:
    """An extra that includes another one names our distribution."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    own = [one for one in wanted if one.startswith("gpushare")]

    assert own == [one for one in own if one.startswith("gpushare-scheduler[")]
    assert own
