"""Several kubeconfig files as one, as kubectl merges those of $KUBECONFIG: for each name the first file that has it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

# A path in a file is relative to the file's own folder.
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_PARTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


def merged(paths: Sequence[Path]) -> dict[str, Any]:
    """One document of the files that are there. Raises FileNotFoundError if none is, and what YAML of another shape raises."""
    files = [path.expanduser() for path in paths]
    documents = [(path, yaml.safe_load(path.read_text()) or {}) for path in files if path.is_file()]
    if not documents:
        raise FileNotFoundError(f"there is no kubeconfig at {', '.join(map(str, paths))}")
    whole: dict[str, Any] = {}
    for part, key in _PARTS.items():
        items = [_absolute(item, key, path.parent) for path, document in documents for item in document.get(part) or ()]
        whole[part] = list({item["name"]: item for item in reversed(items)}.values())
    current = (document.get("current-context") for _, document in documents)
    whole["current-context"] = next(filter(None, current), None)
    return whole


def _absolute(item: Mapping[str, Any], key: str, folder: Path) -> dict[str, Any]:
    """The part with whole paths; ``key`` has its content."""
    content = dict(item[key] or {})
    content |= {name: str(folder.absolute() / content[name]) for name in _PATHS if content.get(name)}
    return {"name": item["name"], key: content}
