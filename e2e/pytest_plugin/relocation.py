"""Modules of ``clusters`` and ``e2e`` under a name that no other repository has. Pure; imports nothing but the standard library.

A repository of others may have folders ``clusters``, ``e2e``, ``load`` and ``tests``. So in the wheel each dotted name of a module
of ours, in an import, in a text or in the words of a command, gets the name of the wheel's package in front.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import Final

PACKAGE: Final = "pytest_gpushare"
_ROOTS: Final = "clusters|e2e"
# These, too, may be folders of others, and are not in the wheel.
_FOREIGN: Final = frozenset({"clusters", "e2e", "load", "tests", "docs", "gpushare"})
# The plugin's own modules are at the top of the package.
_OWN: Final = "e2e.pytest_plugin"

_LINE_END: Final = "\n"
# A path and a host name are no modules.
_DOTTED: Final = re.compile(rf"(?<![\w./-])({_ROOTS})((?:\.[A-Za-z_]\w*)+)")
# `from e2e import x`; `python -m e2e` in a text; "-m", "e2e" in the words of a command, in Python or YAML.
_BARE: Final = re.compile(
    rf"(\bfrom (?=\w+ import\b)|(?<![\w-])-m |\"-m\", \"|'-m', '|(?<=[\[ ])-m, )({_ROOTS})(?![\w./-]\w|\w)"
)
_EMBEDDED_IMPORT: Final = re.compile(r"^\s*(?:from (\w+)[\w.]* import |import (\w+))", re.MULTILINE)


def relocated(text: str, modules: Collection[str]) -> str:
    """A file's text with the names of these ``modules`` (``clusters.api.waiting``, and so on) as the wheel has them."""

    def renamed(match: re.Match[str]) -> str:
        return _new_name(match[0]) if _is_module(match[0], modules) else match[0]

    return _BARE.sub(rf"\1{PACKAGE}.\2", _DOTTED.sub(renamed, text))


def left_over(text: str, modules: Collection[str], *, is_python: bool) -> list[str]:
    """The places of a relocated file that still name a module by its former name, each with its line."""
    found = [
        f"line {text.count(_LINE_END, 0, match.start()) + 1}: {match[0]}"
        for match in [*_DOTTED.finditer(text), *_BARE.finditer(text)]
        if match.re is _BARE or _is_module(match[0], modules)
    ]
    if is_python:
        tree = ast.parse(text)
        found += [f"line {line}: {what}" for line, what in (*_imports(tree), *_texts(tree), *_unbound(tree))]
    return found


def _is_module(name: str, modules: Collection[str]) -> bool:
    """A module, or a name in one."""
    return ".".join(name.split(".")[:2]) in modules


def _new_name(name: str) -> str:
    if name == _OWN or name.startswith(f"{_OWN}."):
        return PACKAGE + name.removeprefix(_OWN)
    return f"{PACKAGE}.{name}"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from ((node.lineno, f"import of {name}") for name in names if _is_foreign(name))


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Programs in a text, and names that are imported by a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _LINE_END in node.value.strip():
            for match in _EMBEDDED_IMPORT.finditer(node.value):
                if _is_foreign(match[1] or match[2]):
                    yield node.lineno, f"text with {match[0].strip()}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__", "find_spec")):
            texts = (one.value for one in node.args if isinstance(one, ast.Constant))
            yield from (
                (node.lineno, f"import of {text}") for text in texts if isinstance(text, str) and _is_foreign(text)
            )


def _is_foreign(name: str) -> bool:
    return name.partition(".")[0] in _FOREIGN


def _unbound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """A variable that had the name of a package of ours, and was taken for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == PACKAGE:
            yield node.lineno, f"{PACKAGE} is used and not imported"
