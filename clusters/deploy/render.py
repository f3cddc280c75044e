"""The objects of a kustomization, with the images and components that a site has. kubectl does the work, or kustomize itself."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.provider import ClusterError

FOLDER: Final = Path(__file__).parent
BASE: Final = FOLDER / "base"
OVERLAY_KIND: Final = FOLDER / "overlays" / "kind"
OVERLAY_NODEPORT: Final = FOLDER / "overlays" / "nodeport"
# For kind's configuration file, as text.
SCHEDULER_PATCH: Final = OVERLAY_KIND / "scheduler-patch.yaml"
# As the manifests name them, without tags: no name below `invalid` resolves, so an unedited apply pulls nothing.
EXTENDER_IMAGE: Final = "registry.invalid/gpushare/extender"
DEVICE_PLUGIN_IMAGE: Final = "registry.invalid/gpushare/device-plugin"
SIMULATED_IMAGE: Final = "registry.invalid/gpushare/device-plugin-simulated"

Object = dict[str, Any]


async def render(
    program: Path, folder: Path, *, images: Mapping[str, str] | None = None, components: Sequence[str] = ()
) -> list[Object]:
    """The objects of the kustomization in ``folder``, with ``components`` (names of folders in components/) over it.

    ``program`` is kubectl or kustomize. ``images`` maps a name in the manifests (without a tag) to the whole name of the image to
    run. Raises ClusterError with the program's error, and for an image that no container runs.
    """
    verb = "build" if program.name == "kustomize" else "kustomize"
    with tempfile.TemporaryDirectory(prefix="gs-kustomize-") as scratch:
        top = write_site(Path(scratch), folder, components) if components else folder
        process = await asyncio.create_subprocess_exec(
            str(program), verb, str(top), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
    if process.returncode:
        raise ClusterError(f"{program.name} {verb} {folder}: {err.decode(errors='replace').strip()}")
    objects = [item for item in yaml.safe_load_all(out) if item]
    return with_images(objects, images or {})


def with_images(objects: Sequence[Object], images: Mapping[str, str]) -> list[Object]:
    """The objects with other images; changes them in place. Raises ClusterError for a name that no container runs."""
    unused = set(images)
    for container in (found for item in objects for found in containers_of(item)):
        name = name_of_image(container["image"])
        if name in images:
            container["image"] = images[name]
            unused.discard(name)
    if unused:
        raise ClusterError(f"no container of the manifests runs {', '.join(sorted(unused))}")
    return list(objects)


def containers_of(item: Object) -> list[Object]:
    """The containers of a workload, init containers first; none for anything else."""
    spec = item.get("spec", {}).get("template", {}).get("spec", {})
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def name_of_image(image: str) -> str:
    """Without its tag or digest; a colon before the last slash is a registry's port."""
    path, slash, last = image.partition("@")[0].rpartition("/")
    return f"{path}{slash}{last.partition(':')[0]}"


def write_site(scratch: Path, folder: Path, components: Sequence[str]) -> Path:
    """A kustomization of components over a folder, in ``scratch``. Paths are relative: kustomize takes no others."""
    scratch, folder = scratch.resolve(), folder.resolve()
    up = Path(*[".."] * (len(scratch.parts) - 1))
    named = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(up / folder.relative_to("/"))],
        "components": [str(up / (FOLDER / "components" / name).resolve().relative_to("/")) for name in components],
    }
    (scratch / "kustomization.yaml").write_text(yaml.safe_dump(named))
    return scratch
