"""The query of a write: dry runs, and the name of the writer. Senseless values are refused. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from clusters.embedded.apiserver.field_rules import not_allowed, wrong
from clusters.embedded.apiserver.refusals import FieldError, options_invalid

_KINDS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_LONGEST_MANAGER: Final = 128


def check(method: str, params: Mapping[str, str], *, applies: bool = False) -> None:
    """Refuse (422) options that make no sense; ``applies``: the patch is one of server-side apply."""
    if method not in _KINDS:
        return
    errors = dry_run(params.get("dryRun", ""))
    if method != "DELETE":
        errors += _manager(params.get("fieldManager", ""))
    if method == "PATCH" and not applies and "force" in params:
        errors.append(not_allowed("force", "may not be specified for non-apply patch"))
    if errors:
        raise options_invalid(_KINDS[method], errors)


def dry_run(*words: str) -> list[FieldError]:
    """The faults of the stages that a client does not want: all, or none."""
    unknown = [word for word in words if word not in ("", "All")]
    text = f'Unsupported value: {json.dumps(list(words))}: supported values: "All"'
    return [FieldError("dryRun", "FieldValueNotSupported", text)] if unknown else []


def _manager(name: str) -> list[FieldError]:
    errors = []
    if len(name.encode()) > _LONGEST_MANAGER:
        text = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        errors.append(FieldError("fieldManager", "FieldValueTooLong", text))
    strange = next((at for at, sign in enumerate(name) if not sign.isprintable()), None)
    if strange is not None:
        text = f"invalid character U+{ord(name[strange]):04X} (at position {strange})"
        errors.append(wrong("fieldManager", name, text))
    return errors
