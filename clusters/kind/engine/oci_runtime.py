"""An OCI runtime in front of runc, for hosts whose bounding set lacks CAP_SYS_RESOURCE.

Docker asks for every capability that it knows when a container is privileged, and runc cannot give what its own bounding set
lacks: the container does not start. This takes the capability out of what is asked, and becomes runc. It is run once for each
step of a container's life, so it imports nothing but the standard library, and works isolated (``python -I -S``).

The places of capabilities are those of the OCI runtime specification: ``process.capabilities`` of the bundle's
``config.json`` (``create``, ``run``, ``restore``), and ``capabilities`` of the process file that ``exec`` names.
"""

from __future__ import annotations

import os
import sys

DROPPED = "CAP_SYS_RESOURCE"
_WITH_BUNDLE = ("create", "run", "restore")


def without(process: object, capability: str = DROPPED) -> object:
    """An OCI process that asks for this capability in none of its sets; what is no process comes back as it is."""
    if not isinstance(process, dict) or not isinstance(process.get("capabilities"), dict):
        return process
    sets = {
        name: [one for one in members if one != capability] if isinstance(members, list) else members
        for name, members in process["capabilities"].items()
    }
    return {**process, "capabilities": sets}


def asked_in(arguments: list[str]) -> str | None:
    """The file in which this call of runc asks for capabilities, or None if it asks for none."""
    if any(word in _WITH_BUNDLE for word in arguments):
        return os.path.join(_option(arguments, "--bundle", "-b") or ".", "config.json")  # noqa: PTH118  # no pathlib: its import costs more than the rest
    if "exec" in arguments:
        return _option(arguments, "--process", "-p")
    return None


def rewrite(path: str, *, bundle: bool) -> None:
    """Take the capability out of this file; the file is untouched if it does not ask for it."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123  # as above
        text = file.read()
    if DROPPED not in text:
        return
    # Half of what this program costs, and most calls need none of it.
    import json

    asked = json.loads(text)
    answer = {**asked, "process": without(asked.get("process"))} if bundle else without(asked)
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  # as above
        json.dump(answer, file)


def main(argv: list[str]) -> None:
    """``oci_runtime.py RUNC ARGUMENT…``: does not return, for it becomes runc."""
    runc, *arguments = argv
    path = asked_in(arguments)
    if path is not None:
        rewrite(path, bundle="exec" not in arguments)
    os.execv(runc, [runc, *arguments])  # noqa: S606  # the runtime that our caller named


def _option(arguments: list[str], *names: str) -> str | None:
    for position, word in enumerate(arguments):
        for name in names:
            if word == name and position + 1 < len(arguments):
                return arguments[position + 1]
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
