"""The one error of the node image."""

from __future__ import annotations


class NodeImageError(Exception):
    """A node image that cannot be made here; the text has what, why, and what to do."""
