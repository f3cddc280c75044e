"""YAML as data, read by libyaml if PyYAML was built with it: ten times as fast."""

from __future__ import annotations

from typing import Any, Final

import yaml

# The wheels of PyYAML have libyaml inside; a build from source may do without.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str) -> Any:
    """The one document of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506  # both are safe loaders
