"""Read and change the packet filter, through the commands that Docker uses, too."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from clusters.kind.engine.docker_client import program
from clusters.provider import ClusterError

# Another program may hold the filter's lock, in seconds.
_LOCK_SECONDS: Final = 20
_DOCKERS: Final = re.compile(r"DOCKER($|-)")
_TABLES: Final = ("filter", "nat", "raw")


def families(environment: Mapping[str, str]) -> list[str]:
    """The commands of this host: for IPv4 always, for IPv6 if the kernel has it."""
    names = ["iptables", "ip6tables"] if Path("/proc/net/if_inet6").exists() else ["iptables"]
    return [name for name in names if program(name, environment) is not None]


def run(family: str, arguments: Iterable[str], environment: Mapping[str, str]) -> bool:
    """Call it; False if the kernel refuses, as for a rule that is not there."""
    argv = [_command(family, environment), "-w", str(_LOCK_SECONDS), *arguments]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def save(family: str, table: str, environment: Mapping[str, str], *, counters: bool = False) -> str:
    """A table as text, one rule a line. Raises ClusterError if it cannot be read."""
    argv = [_command(f"{family}-save", environment), "-t", table, *(["-c"] if counters else [])]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{family}-save ended with {done.returncode}: {done.stderr.strip()}; this needs root")
    return done.stdout


def restore(family: str, text: str, environment: Mapping[str, str]) -> None:
    """Put these chains into a table in one step, all or none; other chains stay. Raises ClusterError."""
    argv = [_command(f"{family}-restore", environment), "-w", str(_LOCK_SECONDS), "--noflush"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{family}-restore ended with {done.returncode}: {done.stderr.strip()}; this needs root")


def has_chain(saved: str, chain: str) -> bool:
    """Is there such a chain in a saved table?"""
    return re.search(rf"^:{re.escape(chain)} ", saved, re.MULTILINE) is not None


def removals(saved: str, bridges: Iterable[str], *, docker_too: bool) -> list[list[str]]:
    """The calls that take the rules about these bridges out of a saved table.

    With ``docker_too`` Docker's chains go, too, and all that leads there.
    """
    names = set(bridges)
    chains = [match[1] for match in re.finditer(r"^:(\S+) ", saved, re.MULTILINE) if _DOCKERS.match(match[1])]
    gone = set(chains) if docker_too else set()
    calls = []
    for line in saved.splitlines():
        words = shlex.split(line)
        if words[:1] != ["-A"] or words[1] in gone:
            continue
        if names & set(words) or gone & set(words[2:]):
            calls.append(["-D", *words[1:]])
    return [*calls, *(["-F", chain] for chain in gone), *(["-X", chain] for chain in chains if chain in gone)]


def has_others(saved: str, bridges: Iterable[str]) -> bool:
    """Has a chain of Docker's a rule that is not about these bridges, and decides something? Then another wrote it.

    Docker's own rules without a bridge only lead from one chain to the next, or name its set of bridges.
    """
    names = set(bridges)
    rules = [shlex.split(line) for line in saved.splitlines() if line.startswith("-A ")]
    return any(_DOCKERS.match(words[1]) and not names & set(words) and not _only_leads_on(words) for words in rules)


def _only_leads_on(words: list[str]) -> bool:
    if any(word.startswith("docker-ext-bridges") for word in words):
        return True
    target = words[words.index("-j") + 1] if "-j" in words else ""
    return not {"-i", "-o"} & set(words) and (target == "RETURN" or _DOCKERS.match(target) is not None)


def are_all_ours(bridges: Iterable[str], environment: Mapping[str, str]) -> bool:
    """Is every rule in Docker's chains about these bridges? Raises ClusterError if the packet filter cannot be read."""
    names = list(bridges)
    tables = [(family, table) for family in families(environment) for table in _TABLES]
    return not any(has_others(save(family, table, environment), names) for family, table in tables)


def remove(bridges: Iterable[str], environment: Mapping[str, str], *, docker_too: bool) -> None:
    """Take everything about these bridges out of the filter, and with ``docker_too`` what Docker leaves behind."""
    names = list(bridges)
    for family in families(environment):
        for table in _TABLES:
            for call in removals(save(family, table, environment), names, docker_too=docker_too):
                run(family, ["-t", table, *call], environment)


def policy(family: str, chain: str, environment: Mapping[str, str]) -> str:
    """The fate of a packet that no rule of this chain of the filter decides: ``ACCEPT`` or ``DROP``."""
    match = re.search(rf"^:{re.escape(chain)} (\S+)", save(family, "filter", environment), re.MULTILINE)
    # A table in which nothing was ever set has no chains yet.
    return match[1] if match is not None else "ACCEPT"


def _command(name: str, environment: Mapping[str, str]) -> str:
    found = program(name, environment)
    if found is None:
        raise ClusterError(f"there is no `{name}`; install iptables")
    return str(found)
