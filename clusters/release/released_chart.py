"""The chart as a release has it: its values name the images that were pushed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from clusters.deploy.chart_templates import TEMPLATES
from clusters.deploy.chart_tools import locate_tool
from clusters.deploy.render import DEVICE_PLUGIN_IMAGE, EXTENDER_IMAGE
from clusters.processes.commands import run
from clusters.processes.scratch import scratch_folder
from clusters.provider import ClusterError

# As the registry and the manifests call them, without what stands before.
IMAGES: Final = {"extender": EXTENDER_IMAGE, "device-plugin": DEVICE_PLUGIN_IMAGE}
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def values_with(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """The text of the chart's values with the images of a registry; ``digests`` by image, none for those known by their tag.

    Raises ClusterError for what is no digest, and if the text does not name an image exactly once.
    """
    for name, image in IMAGES.items():
        digest = digests.get(name, "")
        if digest and not _DIGEST.fullmatch(digest):
            raise ClusterError(f"{digest!r} is no digest of {name}")
        named = re.compile(rf'(repository: ){re.escape(image)}(\n(?:.*\n)*?\s+digest: )""')
        values, count = named.subn(rf'\g<1>{registry}/{name}\g<2>"{digest}"', values)
        if count != 1:
            raise ClusterError(f"the chart's values name {image} {count} times, and not once")
    return values


def package(registry: str, digests: Mapping[str, str], output: Path, environment: Mapping[str, str]) -> Path:
    """The packed chart, made by helm. Raises ClusterError."""
    with scratch_folder() as folder:
        chart = Path(shutil.copytree(TEMPLATES.parent, folder / "gpushare"))
        values = chart / "values.yaml"
        values.write_text(values_with(values.read_text(encoding="utf-8"), registry, digests), encoding="utf-8")
        run([locate_tool("helm", environment), "package", chart, "--destination", folder], environment)
        (packed,) = folder.glob("*.tgz")
        return Path(shutil.copy(packed, output))
