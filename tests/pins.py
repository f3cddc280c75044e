"""Finds what is fetched from elsewhere without a hash, a digest or a commit id: in scripts, Dockerfiles, workflows and Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")
_COMMIT: Final = re.compile(r"@[0-9a-f]{40}$")
# A command as it stands in a script, and what makes it harmless; "" for nothing.
_PAGE_RUN: Final = (
    r"\b(?:curl|wget)\b[^|;&]*\|[^|]*\b(?:ba|da|z)?sh\b"
    r"|\b(?:ba|da|z)?sh\s+(?:-c\s+)?[\"']?[$<]\(\s*(?:curl|wget)\b"
)
_UNSIGNED: Final = r"--allow-unauthenticated|trusted=yes|--no-check-gpg|AllowInsecureRepositories"
# A command as it stands in a script, what makes it harmless ("": nothing does), and what is wrong with it.
_COMMANDS: Final = (
    # `--no-index` and `--no-deps` with the listed build backend install only what lies in the checkout.
    (
        r"\bpip[\d.]*(?:\s+-[-\w=./]+)*\s+(?:install|download|wheel)\b|\$\(PIP\) (?:install|download|wheel)\b",
        r"--require-hashes|--no-index|--no-deps.*--no-build-isolation",
        "pip without --require-hashes",
    ),
    (
        r"\buv\s+(?:pip\s+install|tool|run|add)\b|\buvx\b|\bpipx\s+\w|\beasy_install\b",
        "",
        "an installer without hashes",
    ),
    (_PAGE_RUN, "", "a page run as a program"),
    (
        r"\b(?:curl|wget)\b.*\bhttps?://",
        r"\bsha256sum\b.*(?:-c|--check)|localhost|127\.0\.0\.1",
        "a download whose hash is not checked",
    ),
    (r"\bgo\s+(?:install|run|get)\s+(?:-\S+\s+)*[\w./-]+@", "", "a Go program outside a module with a go.sum"),
    (r"\bGO(?:NOSUMDB|NOSUMCHECK|INSECURE|PRIVATE)=|\bGOSUMDB=off\b|-mod=mod\b", "", "Go without its checksums"),
    (
        r"\bnpm\s+(?:install|i|add|exec)\b|\bnpx\b|\b(?:yarn|pnpm)\s+(?:add|dlx|install)\b",
        r"--frozen-lockfile|--immutable",
        "npm without its lock file",
    ),
    (r"\bcargo\s+install\b", r"--locked", "cargo without its lock file"),
    (r"\bgem\s+install\b", "", "a gem without a hash"),
    (_UNSIGNED, "", "Debian packages without their signatures"),
    (r"\bgit\s+clone\b.*\bhttps?://", "", "a clone without a commit id"),
    (r"\bhelm\s+(?:repo\s+add|install|pull)\b.*\bhttps?://", "", "a chart without a digest"),
)
_IMAGE: Final = r"[\w.-]+(?::\d+)?(?:/[\w.-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?"
_PULLED: Final = re.compile(r"(?:\bdocker\s+(?:pull|run)\s+(?:-\S+\s+)*|(?:--image-base|--node-image)[ =])([^\s\"'$]+)")
_PIP_VERBS: Final = frozenset({"install", "download", "wheel"})


def findings(name: str, text: str) -> list[str]:
    """A line for each thing in this file that is not pinned: ``name:number: what``."""
    path = PurePosixPath(name)
    found = [*_python(text)] if path.suffix == ".py" else [*_commands(text)]
    if path.name.startswith("Dockerfile") or path.suffix == ".dockerfile":
        found += _dockerfile(text)
    if ".github" in path.parts or ".gitlab-ci" in path.name:
        found += _workflow(text)
    return [f"{name}:{number}: {what}" for number, what in sorted(found)]


def unpinned_requirements(text: str) -> list[str]:
    """The entries of a list of requirements that name no version, or no hash."""
    entries = [line for _, line in _logical(text) if line.strip()]
    return [entry for entry in entries if "==" not in entry or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)]


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, those that a backslash continues as one, without comments."""
    begun, whole = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        begun = begun or number
        bare = re.sub(r"(?:^|\s)#.*", "", line).rstrip()
        whole += bare.removesuffix("\\")
        if not bare.endswith("\\"):
            yield begun, whole
            begun, whole = 0, ""
    if whole:
        yield begun, whole


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Commands as they stand in a script, and the images that they pull."""
    for number, line in _logical(text):
        # A Dockerfile may have a command as a list of words.
        words = re.sub(r'[",\[\]]+', " ", line) if re.match(r"\s*(?:RUN|CMD)\s*\[", line) else line
        for command, harmless, what in _COMMANDS:
            if re.search(command, words) and not (harmless and re.search(harmless, words)):
                yield number, what
        for match in _PULLED.finditer(words):
            if not _DIGEST.search(match[1]):
                yield number, f"the image {match[1]} without a digest"


def _dockerfile(text: str) -> Iterator[tuple[int, str]]:
    """Images and downloads of a Dockerfile."""
    stages = {"scratch"} | {match[1].lower() for match in re.finditer(r"(?im)^FROM\s+.*\sAS\s+(\S+)", text)}
    arguments = set(re.findall(r"(?m)^FROM\s+(?:--\S+\s+)*\$\{?(\w+)", text))
    frontend = re.match(r"#\s*syntax=(\S+)", text)
    if frontend and not _DIGEST.search(frontend[1]):
        yield 1, f"the image {frontend[1]} without a digest"
    for number, line in _logical(text):
        for match in re.finditer(r"^(?i:FROM)\s+(?:--\S+\s+)*(\S+)|--from=(\S+)", line):
            image = match[1] or match[2]
            known = image.lower() in stages or image.isdigit() or re.match(r"\$\{?\w+\}?$", image)
            if not known and not _DIGEST.search(image):
                yield number, f"the image {image} without a digest"
        argument = re.match(r"(?i)^ARG\s+(\w+)=(\S+)", line)
        if argument and argument[1] in arguments and not _DIGEST.search(argument[2]):
            yield number, f"the image {argument[2]} without a digest"
        if re.match(r"(?i)^ADD\s+.*https?://", line) and "--checksum=sha256:" not in line:
            yield number, "a download whose hash is not checked"


def _workflow(text: str) -> Iterator[tuple[int, str]]:
    """Actions and images of a workflow."""
    for number, line in _logical(text):
        used = re.match(r"\s*-?\s*uses:\s*[\"']?([^\s\"']+)", line)
        if used and not used[1].startswith("./"):
            pattern = _DIGEST if used[1].startswith("docker://") else _COMMIT
            if not pattern.search(used[1]):
                yield number, f"the action {used[1]} without a commit id"
        image = re.match(rf"\s*(?:-\s+)?(?:container|image|node-image):\s*[\"']?({_IMAGE})[\"']?\s*$", line)
        listed = re.match(rf"\s*-\s+[\"']?([\w.-]+(?:/[\w.-]+)+:{_IMAGE})[\"']?\s*$", line)
        named = re.match(rf"\s*[A-Z_]+:\s*([\w./-]+:{_IMAGE})\s*$", line)
        found = image or listed or named
        if found and not _DIGEST.search(found[1]):
            yield number, f"the image {found[1]} without a digest"


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Calls of pip, in the same function as their constraints; and commands in one string."""
    if not re.search(r"([\"'])pip\1", text):
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    covered = {id(node) for function in functions for node in ast.walk(function)}
    outside = [node for node in ast.walk(tree) if id(node) not in covered]
    for nodes in [*(list(ast.walk(function)) for function in functions), outside]:
        words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        limited = {"--require-hashes", "--no-index"} & words or {"--no-deps", "--no-build-isolation"} <= words
        listed = [node for node in nodes if isinstance(node, ast.List | ast.Tuple | ast.Call)]
        for node in listed:
            members = node.args if isinstance(node, ast.Call) else node.elts
            verbs = {one.value for one in members if isinstance(one, ast.Constant) and isinstance(one.value, str)}
            if verbs & _PIP_VERBS and "apt-get" not in verbs and not limited:
                yield node.lineno, "pip without --require-hashes"
