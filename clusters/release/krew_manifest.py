"""The manifest by which krew installs a plugin of kubectl. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

# Krew links a plugin as `kubectl-` and its name with underscores, so `kubectl-inspect-gpushare` can be none.
_PREFIX: Final = "kubectl-"
_ABOUT: Final = {
    "inspect-gpushare": "Show which pods share which GPU",
    "gpushare": "Explain why pods wait for a part of a GPU",
}
PLATFORMS: Final = ("linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64")


@dataclass(frozen=True, slots=True)
class Plugin:
    """One plugin: its name as krew knows it, and the function that it runs."""

    name: str
    entry: str
    """``module:function``."""

    @property
    def program(self) -> str:
        """The name of its file."""
        return _PREFIX + self.name.replace("-", "_")


def plugins_of(scripts: Mapping[str, str]) -> list[Plugin]:
    """Those of a project's console scripts that krew can install."""
    names = {script.removeprefix(_PREFIX): entry for script, entry in scripts.items() if script.startswith(_PREFIX)}
    return [Plugin(name.replace("_", "-"), entry) for name, entry in sorted(names.items()) if "-" not in name]


def manifest(plugin: Plugin, version: str, homepage: str, archives: Mapping[str, tuple[str, str]]) -> str:
    """The YAML text; ``archives`` has the address and the SHA-256 of each platform's archive."""
    document: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": plugin.name},
        "spec": {
            "version": f"v{version}",
            "homepage": homepage,
            "shortDescription": _ABOUT[plugin.name],
            "description": "For clusters whose pods book parts of a GPU's memory (aliyun.com/gpu-mem).\n",
            "caveats": "Needs Python 3.11, 3.12 or 3.13 as python3 on PATH.\n",
            "platforms": [_platform(plugin, name, *archives[name]) for name in PLATFORMS],
        },
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def _platform(plugin: Plugin, name: str, address: str, digest: str) -> dict[str, Any]:
    system, machine = name.split("-")
    selector = {"matchLabels": {"os": system, "arch": machine}}
    return {"selector": selector, "uri": address, "sha256": digest, "bin": plugin.program}
