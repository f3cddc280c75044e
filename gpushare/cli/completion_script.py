"""The edge of completion: names of objects from the API server, quickly or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final, TextIO
from urllib.parse import quote

from gpushare.cli.completion import NAMESPACES, PODS, Completion, complete, value_given
from gpushare.cli.flags import Flag
from gpushare.errors import GpushareError
from gpushare.kube import config
from gpushare.manifests import AnyObject

# The shell waits for the answer.
_SECONDS: Final = 2.0


def answer(declared: Sequence[Flag], words: Sequence[str], environment: Mapping[str, str], out: TextIO) -> int:
    """Write the completion of the last word; the exit code. Without an API server there are no names, and no error."""
    wanted = complete(declared, words)
    names: list[str] = []
    if wanted.objects:
        with contextlib.suppress(GpushareError, OSError, TimeoutError):
            names = asyncio.run(_names(wanted, declared, words, environment))
    out.write(wanted.text(names))
    return 0


async def _names(
    wanted: Completion, declared: Sequence[Flag], words: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Raises GpushareError and TimeoutError."""
    files = value_given(declared, words, "kubeconfig") or environment.get("KUBECONFIG")
    context = value_given(declared, words, "context")
    path = f"/api/v1/{wanted.objects}"
    if wanted.objects == PODS:
        namespace = value_given(declared, words, "namespace") or config.default_namespace(files, context)
        path = f"/api/v1/{NAMESPACES}/{quote(namespace, safe='')}/{PODS}"
    client = config.connect(files, context, timeout_seconds=_SECONDS)
    found: list[str] = []
    try:
        async with asyncio.timeout(_SECONDS):
            await client.read_each(path, AnyObject, lambda one: found.append(one.metadata.name))
    finally:
        await client.close()
    return found
