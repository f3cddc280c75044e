"""The faults that make an honest reference implementation a faulty one, and the dialect of the original as a set of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Final

# Names of faults, with commas between them: all programs of a play get the variable, and each knows its own.
VARIABLE: Final = "REFERENCE_FAULTS"
ORIGINAL: Final = "original"

EXTENDER: Final = frozenset({
    # Defects of the original, by their numbers.
    "d06-cards-averaged", "d10-unhealthy-cards-offered", "d11-bad-ban-is-card-0", "d12-room-wraps", "d13-nodes-frozen",
    "d14-frozen-while-empty", "d15-freed-when-deletion-starts", "d17-keyed-by-name",
    "d18-book-read-in-pieces", "d19-unknown-node-panics", "d20-annotations-before-bind", "d21-init-and-sidecars-ignored",
    "d23-nodes-for-names", "d24-node-locked", "d25-no-prioritize", "d26-profiles-open", "d29-calls-no-pod",
    "d30-author-believed",
    # Parts of its dialect.
    "all-in-one-map", "bind-not-idempotent", "cpu-only-pods-refused", "original-texts", "refused-bind-500",
    # Subtle ones.
    "annotations-second", "assumed-after-write", "filter-books", "finished-still-counted", "fraction-cut",
    "keys-in-exact-casing", "null-for-list", "off-by-one-unit", "restarts-empty", "score-over-ten", "uid-ignored",
})  # fmt: skip
PLUGIN: Final = frozenset({
    "d01-oldest-equal-pod", "d02-container-against-pod", "d03-failure-as-success", "d04-single-card-to-anyone",
    "d05-size-of-first-card", "d07-long-ids", "d08-list-for-each-id", "d09-no-health", "d21-of-the-plugin",
    "d22-hand-bound-passed-over", "d27-minor-number-to-runtime",
    "original-ids", "original-options",
    "limit-alone", "limit-in-bytes", "limit-kept-over-restart", "limit-none-as-enforced", "limit-of-parent-verified",
    "limit-of-the-pod", "limit-plural-names", "limit-unchecked", "limit-unclamped", "limit-unread",
    "another-card-named", "first-group-alone", "forgets-at-restart", "ids-new-at-each-start", "never-assigned",
    "old-socket-kept", "over-commits", "preferred-ignores-must", "registers-before-serving",
})  # fmt: skip
FAULTS: Final = {"extender": EXTENDER, "device_plugin": PLUGIN}
# Beside its defects: what the original does otherwise, though it is a matter of taste.
_DIALECT: Final = frozenset({
    "bind-not-idempotent", "cpu-only-pods-refused", "original-texts", "refused-bind-500", "all-in-one-map",
    "original-ids", "original-options",
})  # fmt: skip
_DEFECT: Final = re.compile(r"d\d\d-")


def chosen(arguments: argparse.Namespace, environment: Mapping[str, str], program: str) -> frozenset[str]:
    """The faults of this program. Raises SystemExit for one in the environment that no program knows."""
    named = {name for name in environment.get(VARIABLE, "").split(",") if name}
    if unknown := named.difference(*FAULTS.values()):
        raise SystemExit(f"{VARIABLE}: unknown faults {', '.join(sorted(unknown))}")
    spoken = dialect(FAULTS[program]) if arguments.dialect else frozenset()
    return (FAULTS[program] & named) | spoken


def dialect(known: frozenset[str]) -> frozenset[str]:
    """The faults of a program that speaks as the original does: all of its defects, and its traits."""
    return frozenset(name for name in known if name in _DIALECT or _DEFECT.match(name))
