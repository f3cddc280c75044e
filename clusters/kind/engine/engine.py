"""Which Docker is used, and how its clients reach it: one that answers already, else a private one; and the program `kind`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from clusters.controlplane.binaries import Module, cached, module_of
from clusters.controlplane.build import ensure_modules
from clusters.kind.engine import daemon, egress, host, leftovers, network, uses
from clusters.kind.engine.docker_client import (
    DEFAULT_BRIDGE,
    NETWORK,
    NODES_BRIDGE,
    Place,
    docker,
    place_of,
    program,
    server_version,
    with_system_path,
)
from clusters.processes.commands import Progress
from clusters.processes.running_clusters import CHECKOUT
from clusters.provider import ClusterError

_FORCE: Final = "make kind-down ARGS=--force"
_HINT: Final = "`make kind` starts one (as root)"
# A node is a container of a hundred thousand files.
_REMOVE_SECONDS: Final = 300.0
_NETWORK_VARIABLE: Final = "KIND_EXPERIMENTAL_DOCKER_NETWORK"


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker that answers."""

    environment: dict[str, str]
    """For `docker`: DOCKER_HOST where it is not the one that `docker` finds by itself."""
    version: str
    private: bool
    """Ours: started by us, and used by no other program."""


def find(environment: Mapping[str, str], place: Place | None = None) -> Engine | None:
    """The Docker that answers: the private one, the one of DOCKER_HOST or the user's context, or None."""
    place = place or place_of(environment)
    own = {**with_system_path(environment), "DOCKER_HOST": place.address}
    if environment.get("DOCKER_HOST", place.address) == place.address and place.socket.exists():
        version = server_version(own)
        if version is not None:
            return Engine(own, version, private=True)
    users = with_system_path(environment)
    version = server_version(users)
    return Engine(users, version, private=False) if version is not None else None


def reason_against(environment: Mapping[str, str]) -> str | None:
    """Why no node can run in a container here, in one line, or None: for a skip, or a first message."""
    if program("docker", environment) is not None and find(environment) is not None:
        return None
    if sys.platform != "linux":
        return "no Docker answers: start one"
    lacks = host.missing(host.look(place_of(environment).data, environment))
    return f"no Docker answers, and a private one lacks: {'; '.join(lacks)}" if lacks else f"no Docker answers: {_HINT}"


def engine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of child processes that use Docker and kind: DOCKER_HOST, PATH, and the network of kind's nodes.

    `kind` is on that PATH once it was built (``up`` builds it). Raises ClusterError if no Docker answers.
    """
    engine = find(environment)
    if engine is None:
        raise ClusterError(reason_against(environment) or f"no Docker answers: {_HINT}")
    kind = known_kind(environment)
    path = engine.environment["PATH"]
    first = {"PATH": os.pathsep.join([str(kind.parent), path])} if kind is not None else {}
    return {**engine.environment, _NETWORK_VARIABLE: NETWORK, **first}


def up(environment: Mapping[str, str], out: TextIO, place: Place | None = None) -> Engine:
    """A Docker that answers, with the nodes' network, the rules that let nothing out, and `kind`.

    Raises ClusterError if the host lacks something, or a build fails.
    """
    place = place or place_of(environment)
    with uses.locked(place.uses):
        engine = find(environment, place) or _start(environment, place, out)
        _secure(engine, out)
    kind = ensure_kind(environment, out)
    _say(out, f"docker {engine.version}{' (private)' if engine.private else ''} and {kind} are ready")
    return engine


@contextmanager
def using(environment: Mapping[str, str], what: str) -> Iterator[None]:
    """While inside, this process uses the Docker, and no checkout's ``down`` ends it. Raises ClusterError."""
    with uses.run(place_of(environment).uses, CHECKOUT, what):
        yield


def down(
    environment: Mapping[str, str],
    out: TextIO,
    place: Place | None = None,
    *,
    force: bool = False,
    checkout: str = CHECKOUT,
) -> None:
    """End the private Docker and remove every trace of it but its images; of another Docker only what we put there.

    Under a run of another checkout it stays. ``force`` ends it anyway. Raises ClusterError, also under a run of this checkout.
    """
    place = place or place_of(environment)
    with uses.locked(place.uses):
        runs = uses.running(place.uses)
        # Its own runs must end before.
        own = [run for run in runs if run.checkout == checkout]
        if own and not force:
            raise ClusterError(f"it is in use by {uses.named(own)}: end that run first, or use `{_FORCE}`")
        if runs and not force:
            _say(out, f"it stays for {uses.named(runs)} (`{_FORCE}` ends it anyway)")
            return
        if runs:
            _say(out, f"ending it under {uses.named(runs)}")
        _remove(environment, place, out)


def users(place: Place) -> str:
    """Which runs use the Docker, for people. Raises ClusterError."""
    with uses.locked(place.uses):
        return uses.named(uses.running(place.uses)) or "no run"


def _remove(environment: Mapping[str, str], place: Place, out: TextIO) -> None:
    if place.run.exists():
        if daemon.running(place) is None:
            _revive(place, environment, out)
        _end(place, environment, out)
        return
    engine = find(environment, place)
    if engine is None:
        _say(out, "no private Docker is up")
        return
    released = network.remove(engine.environment)
    if os.geteuid() == 0 and released:
        egress.remove(engine.environment)
    what = "our network and rules are gone" if released else f"containers are still on {NETWORK}; it stays"
    _say(out, f"docker {engine.version} is not ours and stays; {what}")


def _start(environment: Mapping[str, str], place: Place, out: TextIO) -> Engine:
    pid = daemon.running(place)
    if pid is not None:
        raise ClusterError(f"dockerd (process {pid}) runs and does not answer; see {place.log}, or end it: `{_FORCE}`")
    facts = host.look(place.data, environment)
    lacks = host.missing(facts)
    if lacks:
        raise ClusterError("no Docker answers, and a private one lacks:\n" + "\n".join(f"  {line}" for line in lacks))
    if facts.lacks_programs:
        host.install(environment, out)
    place.run.mkdir(mode=0o711, parents=True, exist_ok=True)
    leftovers.end_containers(place)
    leftovers.prepare(place.before)
    try:
        daemon.start(place, facts, environment, out)
    except BaseException:
        # Ctrl-C as well: what is half started is of no use.
        daemon.end(place)
        leftovers.remove(place, environment)
        raise
    engine = find(environment, place)
    if engine is None:
        raise ClusterError(f"dockerd answered and then no more; see {place.log}")
    return engine


def _secure(engine: Engine, out: TextIO) -> None:
    network.ensure(engine.environment)
    if os.geteuid() == 0:
        egress.ensure([NODES_BRIDGE, DEFAULT_BRIDGE] if engine.private else [NODES_BRIDGE], engine.environment)
    else:
        _say(out, f"not root: no rules keep the packets of {NETWORK} on this machine")


def _revive(place: Place, environment: Mapping[str, str], out: TextIO) -> None:
    """A dockerd that was killed left containers and networks in its files: it knows best how to remove them."""
    _say(out, "the private Docker was killed; starting it again to clean up")
    leftovers.end_containers(place)
    try:
        daemon.start(place, host.look(place.data, environment), environment, out)
    except ClusterError as error:
        _say(out, f"it does not start ({error}); removing what can be removed without it")


def _end(place: Place, environment: Mapping[str, str], out: TextIO) -> None:
    own = {**with_system_path(environment), "DOCKER_HOST": place.address}
    with Progress(daemon.COMMAND, "ending the private Docker", out) as progress:
        if server_version(own) is not None:
            progress.detail = "removing its containers"
            _remove_all(own)
        progress.detail = "waiting for its end"
        daemon.end(place)
        leftovers.remove(place, environment)
        progress.line("ended; its images stay in the cache")


def _remove_all(environment: Mapping[str, str]) -> None:
    containers = docker(["ps", "--all", "--quiet"], environment).split()
    if containers:
        docker(["rm", "--force", "--volumes", *containers], environment, _REMOVE_SECONDS)
    docker(["volume", "prune", "--force"], environment, _REMOVE_SECONDS)
    docker(["network", "prune", "--force"], environment)


def _say(out: TextIO, text: str) -> None:
    print(f"{daemon.COMMAND}: {text}", file=out, flush=True)


_FOLDER: Final = Path(__file__).parents[1] / "binaries" / "kind"
_MODULE: Final = "sigs.k8s.io/kind"
_ANSWER_SECONDS: Final = 30


def kind_module() -> Module:
    """The program to build, in the pinned version."""
    return module_of(_FOLDER, "kind", _MODULE, {"kind": _MODULE})


def fits(version: str, pinned: str) -> bool:
    """May this version (``v0.33.0``) be used in the place of the pinned? The same minor or a newer one of the same major."""
    ours, theirs = (re.match(r"v?(\d+)\.(\d+)\.", one) for one in (pinned, version))
    if ours is None or theirs is None:
        return False
    return ours[1] == theirs[1] and int(theirs[2]) >= int(ours[2])


def known_kind(environment: Mapping[str, str]) -> Path | None:
    """The `kind` that will be used, or None if it must be built first."""
    module = kind_module()
    on_path = program("kind", environment)
    if on_path is not None and fits(_version_of(on_path), module.version):
        return on_path
    return cached(module, environment).get("kind")


def ensure_kind(environment: Mapping[str, str], out: TextIO) -> Path:
    """A `kind` that fits, built if there is none. Raises ClusterError."""
    return known_kind(environment) or ensure_modules([kind_module()], environment, out)["kind"]


def _version_of(path: Path) -> str:
    """``kind version -q`` prints the bare number; "" if it does not answer."""
    try:
        done = subprocess.run(
            [path, "version", "-q"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
