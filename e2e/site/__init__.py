"""An existing cluster, as its admin runs it: look at it without touching anything.

``picture`` holds what the API server showed, ``node_cards`` reads the cards of a node from it, and the invariants of nodes and pods
judge it (all pure). ``observe`` is the command.
"""

from __future__ import annotations


class SiteError(Exception):
    """The cluster or machine could not be looked at; the text has what, and what to do."""
