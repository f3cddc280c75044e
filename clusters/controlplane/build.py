"""``python -m clusters.controlplane.build``: build the programs of a real control plane that are not there yet.

Each module is built by Go from its pinned sources into the cache, beside what is there: a reader sees all of a module's
programs or none. A second call has nothing to do and returns at once.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane.binaries import (
    ASSETS_VARIABLE,
    ETCD,
    KUBERNETES_PROGRAMS,
    Module,
    cache_folder,
    cached,
    container_toolkit,
    containerd,
    known,
    minors,
    modules,
)
from clusters.processes.commands import BUILDING, Progress, exit_code_of, locked, run, watch
from clusters.provider import ClusterError

_COMMAND: Final = "control-plane"


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``; 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    environment = dict(os.environ)

    def ensure_all() -> None:
        for minor in arguments.kubernetes or minors()[:1]:
            ensure(minor, environment, arguments.assets, sys.stderr)
        if arguments.toolkit:
            ensure_modules([container_toolkit(), containerd()], environment, sys.stderr)

    return exit_code_of(_COMMAND, ensure_all)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clusters.controlplane.build", description=__doc__)
    parser.add_argument(
        "--kubernetes", action="append", choices=minors(), help="minor to build, may be repeated (default: the newest)"
    )
    parser.add_argument(
        "--assets",
        type=Path,
        metavar="DIR",
        help="folder with ready programs of that minor (default: $KUBEBUILDER_ASSETS)",
    )
    parser.add_argument(
        "--toolkit",
        action="store_true",
        help="build NVIDIA's container toolkit, runc and containerd too (needs a C compiler)",
    )
    return parser


def ensure(minor: str, environment: Mapping[str, str], assets: Path | None, out: TextIO) -> None:
    """Build the missing programs of that minor. Raises ClusterError if the assets are no folder."""
    for module in modules(minor):
        _ensure(module, partial(known, minor, environment, assets), environment, out)


def ensure_modules(modules: Iterable[Module], environment: Mapping[str, str], out: TextIO) -> dict[str, Path]:
    """Build what the cache lacks of these modules; each program's path by its name. Raises ClusterError."""
    wanted = list(modules)
    for module in wanted:
        _ensure(module, partial(cached, module, environment), environment, out)
    return {program: path for module in wanted for program, path in cached(module, environment).items()}


def _ensure(
    module: Module, look: Callable[[], Mapping[str, Path]], environment: Mapping[str, str], out: TextIO
) -> None:
    """Build what looking does not find of a module."""
    if not _missing(module, look()):
        return
    with locked(cache_folder(environment), _COMMAND, out):
        # Another process may have built it while we waited.
        missing = _missing(module, look())
        if missing:
            build(module, missing, environment, out)


def build(module: Module, programs: Sequence[str], environment: Mapping[str, str], out: TextIO) -> None:
    """Build these programs of one module into the cache. Raises ClusterError."""
    if shutil.which("go", path=environment.get("PATH")) is None:
        assets = set(module.packages) <= {*KUBERNETES_PROGRAMS, ETCD}
        raise ClusterError(
            f"{', '.join(programs)} of {module.name} {module.version} must be built and there is no `go` on PATH; install Go"
            + (f", or point {ASSETS_VARIABLE} at a folder that has them" if assets else "")
        )
    target = module.cache(cache_folder(environment))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=target.parent) as folder:
        _go_build(module, programs, Path(folder), environment, out)
        for program in programs:
            (Path(folder) / _built_name(module.packages[program])).rename(target / program)


def _go_build(
    module: Module, programs: Sequence[str], folder: Path, environment: Mapping[str, str], out: TextIO
) -> None:
    packages = [module.packages[program] for program in programs]
    settings = {
        **environment,
        "CGO_ENABLED": str(int(bool(module.c_linking))),
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
    }
    tags = ["-tags", ",".join(module.tags)] if module.tags else []
    name = f"{module.name} {module.version}"
    with Progress(_COMMAND, f"building {name}: finding its packages", out, "once; minutes") as progress:
        total = len(run(["go", "list", *tags, "-deps", *packages], settings, module.folder).splitlines())
        progress.text = f"building {name}"
        flags = ["-v", "-buildvcs=false", "-trimpath", "-ldflags", _ldflags(module), *tags]
        # Go names each package as it compiles it; those of an earlier build it does not name.
        watch(
            ["go", "build", *flags, "-o", f"{folder}/", *packages],
            settings,
            progress,
            folder=module.folder,
            detail=lambda lines: f"{len(lines)} of up to {total} packages",
        )
        progress.line(f"built {name}: {', '.join(programs)}")


def _ldflags(module: Module) -> str:
    """Without symbols, and with the version that its programs report."""
    c_linking = [f"'-extldflags={module.c_linking}'"] if module.c_linking else []
    return " ".join(["-s", "-w", *c_linking, *(f"-X {variable}={value}" for variable, value in module.stamps.items())])


def _built_name(package: str) -> str:
    """The file that `go build` makes of a package: its last element, major version left out."""
    return re.sub(r"/v\d+$", "", package).rpartition("/")[2]


def _missing(module: Module, found: Mapping[str, Path]) -> list[str]:
    return [program for program in module.packages if program not in found]


if __name__ == "__main__":
    sys.exit(main())
