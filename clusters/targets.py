"""The programs under test, as data: argv, environment and ready check of each. ``e2e/targets/*.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
import yaml

from clusters.provider import ClusterError, read_yaml

_ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = _ROOT / "e2e" / "targets"
# Beyond the contract of the original: a case that needs one is not applicable to a target that does not declare it.
Capability = Literal[
    "client-certificates", "explain", "guarded", "health", "policies", "preempt", "prioritize", "repair", "roles", "slots",
    "takeover", "usage", "wishes",
]  # fmt: skip
CAPABILITIES: Final[frozenset[str]] = frozenset(get_args(Capability))


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program: words in braces are filled in when it is started."""

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    environment: dict[str, str] = {}
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


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The programs of one implementation."""

    name: str
    extender: Program
    device_plugin: Program
    inspect: Program
    capabilities: frozenset[Capability] = frozenset()
    """The abilities beyond the original's contract that it claims; ``e2e/targets/README.md`` explains each."""
    roles: tuple[str, ...] = ()
    """Manifests of the ServiceAccounts of its programs and of their rights; paths from the top of the checkout."""
    policies: tuple[str, ...] = ()
    """Manifests of admission policies; an API server without such a kind runs without them."""
    policy_probe: dict[str, str] = {}
    """The check that the policies act: a pod that ``asks`` for one resource ``gets`` another."""

    def role_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``roles``. Raises ClusterError."""
        return self._manifests("roles", self.roles)

    def policy_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``policies``. Raises ClusterError."""
        return self._manifests("policies", self.policies)

    def _manifests(self, what: str, paths: tuple[str, ...]) -> list[dict[str, Any]]:
        try:
            texts = [(_ROOT / path).read_text(encoding="utf-8") for path in paths]
            return [
                msgspec.convert(item, dict[str, Any]) for text in texts for item in yaml.safe_load_all(text) if item
            ]
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ClusterError(f"the {what} of target {self.name}: {error}") from error


def load_target(name_or_path: str) -> Target:
    """A target by name (a file in e2e/targets) or by path. Raises ClusterError."""
    path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ClusterError(f"target {name_or_path!r} is neither a file nor one of: {known}")
    return read_yaml(path, Target, "a target")
