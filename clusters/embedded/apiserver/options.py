"""The options of a request: versions, pages and initial events of a list or a watch, dry runs of a write. Pure.

Options that have no meaning are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from clusters.embedded.apiserver.field_rules import unsupported
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, options_invalid

_UNSIGNED: Final = re.compile(r"[0-9]{1,19}")
_SIGNED: Final = re.compile(r"[-+]?[0-9]{1,18}")

Params = Mapping[str, str]


def version_of(params: Params, *, in_list: bool = False) -> int:
    """The version that is asked for; 0: none. Raises RefusalError: 400 for a list, else 500, as the real server does."""
    text = params.get("resourceVersion", "")
    if text and not _UNSIGNED.fullmatch(text):
        reason = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f"invalid resource version: {reason}") if in_list else RefusalError(500, "", reason)
    return int(text) if text else 0


def number(params: Params, name: str) -> int:
    """A whole number of the query; 0 if it is absent. Raises RefusalError (400)."""
    text = params.get(name, "")
    if text and not _SIGNED.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text) if text else 0


def check_dry_run(kind: str, *stages: str) -> None:
    """Refuse (422) other stages to leave out of a write than all, or none; ``kind`` is that of the write's options."""
    wrong = [unsupported("dryRun", stage, ("All",)) for stage in stages if stage not in ("", "All")]
    if wrong:
        raise options_invalid(kind, wrong)
