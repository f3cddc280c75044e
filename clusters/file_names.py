"""Names of files, of users' certificates and of hosts that stand for names of Kubernetes, which may be longer. Pure."""

from __future__ import annotations

import hashlib


def file_name(name: str, longest: int = 100) -> str:
    """The name, or one that stands for it if it is longer than this; of two long names each has its own."""
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - len(digest) - 1].rstrip('-.')}-{digest}"
