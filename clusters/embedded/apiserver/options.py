"""The options of a request: versions, pages and initial events of a list or a watch, dry runs of a write. Pure.

Options that contradict each other, or have no meaning, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from clusters.embedded.apiserver.field_rules import not_allowed, unsupported
from clusters.embedded.apiserver.refusals import FieldError, RefusalError, bad_request, options_invalid

_MATCH: Final = "resourceVersionMatch"
_INITIAL: Final = "sendInitialEvents"
_UNSIGNED: Final = re.compile(r"[0-9]{1,19}")
_SIGNED: Final = re.compile(r"[-+]?[0-9]{1,18}")

Params = Mapping[str, str]


def check_list(params: Params) -> None:
    """Refuse (422) options of a list that contradict each other."""
    number(params, "timeoutSeconds")
    errors = [not_allowed(_INITIAL, f"{_INITIAL} is forbidden for list")] if params.get(_INITIAL) else []
    match, version = params.get(_MATCH, ""), params.get("resourceVersion", "")
    if match and not version:
        errors.append(not_allowed(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
    if match and params.get("continue"):
        errors.append(not_allowed(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    if match not in ("", "Exact", "NotOlderThan"):
        errors.append(unsupported(_MATCH, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        errors.append(not_allowed(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    _refuse(errors)


def check_watch(params: Params) -> None:
    """Refuse (422) options of a watch that contradict each other."""
    errors: list[FieldError] = []
    match, initial = params.get(_MATCH, ""), params.get(_INITIAL, "")
    if match and not initial:
        errors.append(not_allowed(_MATCH, f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"))
    if initial and match != "NotOlderThan":
        errors.append(not_allowed(_MATCH, f"{_INITIAL} requires setting {_MATCH} to NotOlderThan"))
        if match:
            errors.append(unsupported(_MATCH, match, ("NotOlderThan",)))
    # A watch without a version is one with initial events, whichever client opens it.
    if params.get("continue") and (match or params.get("resourceVersion", "") in ("", "0")):
        errors.append(not_allowed(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    _refuse(errors)


def version_of(params: Params, unreadable: Callable[[str], RefusalError]) -> int | None:
    """The version that is asked for; None: none. Raises what ``unreadable`` makes of the reason."""
    text = params.get("resourceVersion", "")
    if text and not _UNSIGNED.fullmatch(text):
        reason = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise unreadable(reason)
    return int(text) if text else None


def unreadable_in_list(reason: str) -> RefusalError:
    """400: lists look before they ask for anything."""
    return bad_request(f"invalid resource version: {reason}")


def unreadable_elsewhere(reason: str) -> RefusalError:
    """500, without a reason's word: as the real server answers a GET or a watch of such a version."""
    return RefusalError(500, "", reason)


def number(params: Params, name: str) -> int:
    """A whole number of the query; 0 if it is absent. Raises RefusalError (400)."""
    text = params.get(name, "")
    if text and not _SIGNED.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text) if text else 0


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise options_invalid("ListOptions", errors)


def check_write(kind: str, params: Params) -> None:
    """Refuse (422) the options of a write; ``kind`` is theirs."""
    errors = dry_run(params.get("dryRun", ""))
    if errors:
        raise options_invalid(kind, errors)


def dry_run(*stages: str) -> list[FieldError]:
    """The faults of the stages that a client does not want: all, or none."""
    return [unsupported("dryRun", stage, ("All",)) for stage in stages if stage not in ("", "All")]
