"""``python -m clusters.controlplane.build``: build the programs of a real control plane that are not there yet.

Each module is built by Go from its pinned sources into the cache, beside what is there: whoever looks sees all of a module's
programs or none. A second call has nothing to do and returns at once.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane.binaries import (
    KUBERNETES_PROGRAMS,
    MissingBinariesError,
    Module,
    cache_folder,
    known,
    minors,
    modules,
)

# How often a line of progress comes, in seconds; on a terminal the line is renewed instead.
_LINE_SECONDS: Final = 15.0
_RENEW_SECONDS: Final = 0.5
# Beside the programs, while they are built.
_BUILDING: Final = ".building-"
# Lines of Go's output that are shown when it fails.
_TAIL: Final = 20
# Where Kubernetes keeps the version that a program says of itself.
_STAMPED: Final = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class BuildError(Exception):
    """A build that cannot be done or failed; says what, why, and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when all programs are there, 1 when a build failed, 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    # Whoever ends this wants Go ended and nothing half left, as after Ctrl-C.
    signal.signal(signal.SIGTERM, _interrupt)
    environment = dict(os.environ)
    try:
        for minor in arguments.kubernetes or minors()[:1]:
            ensure(minor, environment, arguments.assets, sys.stderr)
    except (BuildError, MissingBinariesError) as error:
        print(f"control-plane: {error}", file=sys.stderr)  # noqa: T201  # a command's error
        return 1
    except KeyboardInterrupt as interrupted:
        print("control-plane: interrupted", file=sys.stderr)  # noqa: T201  # what became of the command
        return 128 + (interrupted.args[0] if interrupted.args else signal.SIGINT)
    return 0


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


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
    return parser


def ensure(minor: str, environment: Mapping[str, str], assets: Path | None, out: TextIO) -> None:
    """Build what is missing of that minor. Raises BuildError, and MissingBinariesError where the assets are no folder."""
    for module in modules(minor):
        if _missing(module, known(minor, environment, assets)):
            with _locked(cache_folder(environment), out):
                # Somebody else may have built it while we waited.
                missing = _missing(module, known(minor, environment, assets))
                if missing:
                    build(module, missing, environment, out)


def build(module: Module, programs: Sequence[str], environment: Mapping[str, str], out: TextIO) -> None:
    """Build these programs of one module into the cache. Raises BuildError."""
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise BuildError(
            f"{', '.join(programs)} of {module.name} {module.version} must be built and there is no `go` on PATH; install Go, "
            f"or point KUBEBUILDER_ASSETS at a folder that has them"
        )
    target = module.cache(cache_folder(environment))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=target.parent) as folder:
        _go_build(module, programs, Path(folder), environment, out)
        for program in programs:
            (Path(folder) / _built_name(module.packages[program])).rename(target / program)


def _go_build(
    module: Module, programs: Sequence[str], folder: Path, environment: Mapping[str, str], out: TextIO
) -> None:
    packages = [module.packages[program] for program in programs]
    settings = {**environment, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    name = f"{module.name} {module.version}"
    progress = _Progress(f"building {name}: finding its packages", out)
    with progress:
        total = len(_run_go(["list", "-deps", *packages], module, settings).splitlines())
        progress.text = f"building {name}"
        flags = ["-v", "-buildvcs=false", "-trimpath", "-ldflags", _ldflags(module)]
        argv = ["go", "build", *flags, "-o", f"{folder}/", *packages]
        lines: list[str] = []
        # Ended, and waited for, whatever happens here.
        with subprocess.Popen(argv, cwd=module.folder, env=settings, stderr=subprocess.PIPE, text=True) as process:
            try:
                for line in process.stderr or ():
                    lines.append(line.rstrip())
                    # Go names each package as it compiles it; those of an earlier build it does not name.
                    progress.detail = f"{len(lines)} of up to {total} packages"
            except BaseException:
                process.terminate()
                raise
    if process.returncode != 0:
        raise BuildError(f"go build of {name} ended with {process.returncode}:\n" + "\n".join(lines[-_TAIL:]))
    progress.say(f"built {name}: {', '.join(programs)}")


def _run_go(arguments: list[str], module: Module, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        ["go", *arguments], cwd=module.folder, env=dict(environment), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-_TAIL:])
        raise BuildError(f"go {arguments[0]} of {module.name} {module.version} ended with {done.returncode}:\n{tail}")
    return done.stdout


def _ldflags(module: Module) -> str:
    """Without symbols; the programs of Kubernetes are told their version, as its own release build does."""
    flags = ["-s", "-w"]
    if module.packages.keys() & set(KUBERNETES_PROGRAMS):
        major, minor, _ = module.version.lstrip("v").split(".", 2)
        values = {
            "gitVersion": module.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "archive",
            "buildDate": "1970-01-01T00:00:00Z",
        }
        flags += [f"-X {package}.{name}={value}" for package in _STAMPED for name, value in values.items()]
    return " ".join(flags)


def _built_name(package: str) -> str:
    """The file that `go build` makes of a package: its last element, major version left out."""
    return re.sub(r"/v\d+$", "", package).rpartition("/")[2]


def _missing(module: Module, found: Mapping[str, Path]) -> list[str]:
    return [program for program in module.packages if program not in found]


@contextmanager
def _locked(folder: Path, out: TextIO) -> Iterator[None]:
    """One build at a time in a cache; the others wait and then find it done. Raises BuildError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise BuildError(
            f"{folder}: cannot be written ({error.strerror}); GPUSHARE_CACHE names another folder"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"control-plane: waiting for another build in {folder}", file=out, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Builds that were killed could not remove theirs.
        for left in folder.glob(f"{_BUILDING}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


class _Progress:
    """Says now and then what is going on and for how long."""

    def __init__(self, text: str, out: TextIO) -> None:
        self.text = text
        self.detail = ""
        self._out = out
        self._renews = out.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = time.monotonic()

    def __enter__(self) -> None:
        self.say(f"{self.text} (once; minutes)")
        self._thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._renews:
            self._out.write("\r\033[K")

    def say(self, text: str) -> None:
        """A line of its own."""
        print(f"control-plane: {text}, {time.monotonic() - self._start:.0f} s", file=self._out, flush=True)

    def _run(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS if self._renews else _LINE_SECONDS):
            if self._renews:
                self._out.write(f"\r\033[Kcontrol-plane: {self._line()}")
                self._out.flush()
            else:
                print(f"control-plane: {self._line()}", file=self._out, flush=True)

    def _line(self) -> str:
        return f"{self.text}: {self.detail or 'reading'}, {time.monotonic() - self._start:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
