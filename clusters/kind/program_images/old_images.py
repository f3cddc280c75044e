"""Images of former contents: removed after a day, for another checkout may still use them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_KEPT_FOR: Final = timedelta(days=1)


def is_old(image: Mapping[str, Any], kept: Collection[str], now: datetime) -> bool:
    """Shall an image go? ``image`` as `docker image inspect` describes it."""
    names = image.get("RepoTags") or []
    return not set(names) & set(kept) and now - created(image["Created"]) > _KEPT_FOR


def created(text: str) -> datetime:
    """A time as Docker prints it, with up to nine digits of fractions of a second."""
    return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)


def remove_old(repositories: Collection[str], kept: Collection[str], environment: Mapping[str, str]) -> None:
    """Remove old images of these repositories, and what building them left; those that a container uses stay."""
    now = datetime.now(UTC)  # noqa: TID251  # the engine's clock is this machine's
    names = [
        name for repository in repositories for name in _docker(["images", "--quiet", repository], environment).split()
    ]
    if names:
        images = json.loads(_docker(["image", "inspect", *dict.fromkeys(names)], environment) or "[]")
        for image in images:
            if is_old(image, kept, now):
                _docker(["image", "rm", *(image.get("RepoTags") or [image["Id"]])], environment)
    # Stages that no image stands on any more; the labels are the Dockerfile's.
    hours = int(_KEPT_FOR.total_seconds() // 3600)
    _docker(
        ["image", "prune", "--force", "--filter", "label=gpushare.stage", "--filter", f"until={hours}h"], environment
    )


def _docker(arguments: list[str], environment: Mapping[str, str]) -> str:
    """The output of Docker; an image that cannot be removed is no reason to fail a build."""
    return subprocess.run(
        ["docker", *arguments], env=dict(environment), capture_output=True, text=True, check=False
    ).stdout
