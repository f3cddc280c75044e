"""The faults that make an honest reference implementation a faulty one, and the dialect of the original as a set of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Final

# Comma-separated, each ``PROGRAM/FAULT``: all programs of a play get the variable, and two may know one fault.
VARIABLE: Final = "REFERENCE_FAULTS"
ORIGINAL: Final = "original"

EXTENDER: Final = frozenset({
    # Defects of the original, by their numbers.
    "d06-cards-averaged", "d10-unhealthy-cards-offered", "d11-bad-ban-is-card-0", "d12-room-wraps", "d13-nodes-frozen",
    "d14-frozen-while-empty", "d15-freed-when-deletion-starts", "d17-keyed-by-name",
    "d18-book-read-in-pieces", "d19-unknown-node-panics", "d20-annotations-before-bind", "d21-init-and-sidecars-ignored",
    "d23-nodes-for-names", "d24-node-locked", "d25-no-prioritize", "d26-profiles-open", "d29-learns-late",
    "d30-author-believed",
    # Parts of its dialect.
    "bind-not-idempotent", "cpu-only-pods-refused", "original-texts", "refused-bind-500",
    # Subtle ones.
    "all-in-one-map", "annotations-second", "another-cards-index", "assigned-at-bind", "assumed-after-write",
    "bodies-up-to-1-mib", "booking-kept-after-refusal", "card-size-is-the-total", "created-for-bound", "error-left-out",
    "filter-books", "finished-still-counted", "first-container-alone", "fraction-cut", "hosts-left-out", "in-both-maps",
    "keys-in-exact-casing", "keys-in-lower-case", "names-not-asked", "nodes-stripped", "null-for-list",
    "off-by-one-unit", "restarts-empty", "room-not-checked-at-bind", "score-is-a-fraction", "score-over-ten",
    "stale-by-one-event", "time-in-seconds", "uid-ignored",
})  # fmt: skip
PLUGIN: Final = frozenset({
    "d01-oldest-equal-pod", "d02-container-against-pod", "d03-failure-as-success", "d04-single-card-to-anyone",
    "d05-size-of-first-card", "d07-long-ids", "d08-list-for-each-id", "d09-no-health", "d21-init-and-sidecars-ignored",
    "d22-hand-bound-passed-over", "d27-minor-number-to-runtime",
    "original-ids", "original-options",
    "all-cards-visible", "another-cards-index", "assigned-at-allocate", "card-size-in-mib", "container-gets-pods-units",
    "count-written-once", "first-group-alone", "forgets-at-restart", "gives-up-when-refused", "ids-new-at-each-start",
    "ids-not-freed", "list-not-resent-after-recovery", "list-too-large-sent", "never-assigned", "old-socket-kept",
    "old-stream-kept", "one-id-of-a-unhealthy-card", "over-commits", "preferred-ignores-must", "preferred-too-few",
    "rate-limit-is-fatal", "refuses-without-reason", "registers-before-serving", "unhealthy-ids-left-out", "small-answers-only",
    "units-rounded-up",
})  # fmt: skip
INSPECT: Final = frozenset({
    "blanks-cut", "dashes-one-short", "first-container-alone", "leaving-not-counted", "pending-left-out", "percent-rounded",
    "terminated-counted", "total-of-shown-cards", "unit-always-gib",
})  # fmt: skip
FAULTS: Final = {"extender": EXTENDER, "device_plugin": PLUGIN, "inspect": INSPECT}
# Beside its defects: what the original does otherwise, though it is a matter of taste.
_DIALECT: Final = frozenset({
    "bind-not-idempotent", "cpu-only-pods-refused", "original-texts", "refused-bind-500", "all-in-one-map",
    "original-ids", "original-options",
})  # fmt: skip
_DEFECT: Final = re.compile(r"d\d\d-")


def add_flags(parser: argparse.ArgumentParser, program: str) -> None:
    """Declare how faults and the dialect are chosen."""
    parser.add_argument("--fault", action="append", default=[], choices=sorted(FAULTS[program]), metavar="NAME")
    parser.add_argument("--dialect", choices=[ORIGINAL])


def chosen(arguments: argparse.Namespace, environment: Mapping[str, str], program: str) -> frozenset[str]:
    """The faults of this program. Raises SystemExit for one in the environment that its program does not know."""
    named = {name for name in environment.get(VARIABLE, "").split(",") if name}
    if unknown := named - {f"{one}/{fault}" for one, known in FAULTS.items() for fault in known}:
        raise SystemExit(f"{VARIABLE}: unknown faults {', '.join(sorted(unknown))}")
    own = {fault for one, _, fault in (name.partition("/") for name in named) if one == program}
    spoken = dialect(FAULTS[program]) if arguments.dialect else frozenset()
    return frozenset(own | set(arguments.fault) | spoken)


def dialect(known: frozenset[str]) -> frozenset[str]:
    """The faults of a program that speaks as the original does: all of its defects, and its traits."""
    return frozenset(name for name in known if name in _DIALECT or _DEFECT.match(name))
