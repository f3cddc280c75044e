"""What is under test, as data: argv, environment, ready check of each program. ``e2e/targets/*.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.provider import ClusterError

_ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = _ROOT / "e2e" / "targets"


@dataclass(frozen=True, slots=True)
class Program:
    """One program: words in braces are filled in when it is started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: str = ""
    path: str = ""
    resource: str = ""
    account: str = ""
    """The ServiceAccount that it runs with, ``namespace/name``; "" for an administrator's rights."""

    def command(self, **values: str) -> tuple[list[str], dict[str, str]]:
        """Its argv and environment with the words in braces filled in. Raises ClusterError for an unknown word."""
        try:
            argv = [word.format(**values) for word in self.argv]
            environment = {name: value.format(**values) for name, value in self.environment.items()}
        except (KeyError, IndexError, ValueError) as error:
            raise ClusterError(f"{self.argv[0]}: the target names {error}, known are {', '.join(values)}") from error
        return argv, environment


@dataclass(frozen=True, slots=True)
class Target:
    """The programs of one implementation."""

    name: str
    extender: Program
    device_plugin: Program
    inspect: Program
    roles: tuple[Path, ...] = ()
    """Manifests of the ServiceAccounts of its programs and of what these may do."""

    policies: tuple[Path, ...] = ()
    """Manifests of admission policies; an API server that has no such kind goes without them."""
    policy_probe: Mapping[str, str] = field(default_factory=dict)
    """By what one sees that they act: a pod that ``asks`` for one resource ``gets`` another."""

    def role_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``roles``. Raises ClusterError."""
        return self._manifests("roles", self.roles)

    def policy_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``policies``. Raises ClusterError."""
        return self._manifests("policies", self.policies)

    def _manifests(self, what: str, paths: tuple[Path, ...]) -> list[dict[str, Any]]:
        try:
            return [item for path in paths for item in yaml.safe_load_all(path.read_text()) if item]
        except (OSError, yaml.YAMLError) as error:
            raise ClusterError(f"the {what} of target {self.name}: {error}") from error


def load_target(name_or_path: str) -> Target:
    """A target by name (a file in e2e/targets) or by path. Raises ClusterError."""
    path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ClusterError(f"target {name_or_path!r} is neither a file nor one of: {known}")
    try:
        document = yaml.safe_load(path.read_text())
        programs = {key: _program(document[key]) for key in ("extender", "device_plugin", "inspect")}
        roles, policies = (tuple(_ROOT / name for name in document.get(key, ())) for key in ("roles", "policies"))
        probe = document.get("policy_probe", {})
        return Target(name=document["name"], roles=roles, policies=policies, policy_probe=probe, **programs)
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise ClusterError(f"{path}: not a target: {error!r}") from error


def _program(entry: dict[str, object]) -> Program:
    argv = entry["argv"]
    if not isinstance(argv, list) or not argv:
        raise TypeError("argv must be a list of words")
    rest = {key: value for key, value in entry.items() if key != "argv"}
    return Program(argv=tuple(map(str, argv)), **rest)  # type: ignore[arg-type]
