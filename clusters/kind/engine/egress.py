"""Nothing leaves the machine from our containers, and what tried is counted.

Two chains of ours in the filter of each family, through the commands that Docker uses, too. ``GPUSHARE-EGRESS`` hangs in
DOCKER-USER, which another Docker keeps before all rules of its own and never changes, or in FORWARD if there is none: packets from
a bridge of ours go to a bridge of ours or are rejected, and none comes from elsewhere. ``GPUSHARE-HOST`` hangs in INPUT: containers
answer this host and ask it nothing. Our private Docker writes no rules.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.kind.engine.docker_client import program
from clusters.provider import ClusterError

EGRESS: Final = "GPUSHARE-EGRESS"
HOST: Final = "GPUSHARE-HOST"
# A program that gets a reset or an error reports it immediately; one with packets that vanish waits for minutes.
_ERRORS: Final = {"iptables": "icmp-port-unreachable", "ip6tables": "icmp6-port-unreachable"}
# Another program may hold the filter's lock, in seconds.
_LOCK_SECONDS: Final = "20"


def rules(bridges: Sequence[str], family: str) -> list[str]:
    """The rules of both chains, in the order in which they are asked, worded as the kernel's list words them."""
    rejects = ["-p tcp -j REJECT --reject-with tcp-reset", f"-j REJECT --reject-with {_ERRORS[family]}"]
    # Accepted, for another Docker may have set the policy of FORWARD to DROP.
    within = [f"-A {EGRESS} -i {source} -o {target} -j ACCEPT" for source in bridges for target in bridges]
    out = [f"-A {EGRESS} -i {bridge} {reject}" for bridge in bridges for reject in rejects]
    into = [f"-A {EGRESS} -o {bridge} -j DROP" for bridge in bridges]
    answers = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
    host = [f"-A {HOST} -i {bridge} {what}" for bridge in bridges for what in (answers, *rejects)]
    return [*within, *out, *into, *host]


def ensure(bridges: Sequence[str], environment: Mapping[str, str]) -> None:
    """Set the rules for these bridges; if they are set already the counters go on. Raises ClusterError."""
    for family in _families(environment):
        saved = _filter(family, environment)
        wanted = rules(bridges, family)
        if sorted(_ours(saved)) != sorted(wanted):
            declared = [f":{chain} - [0:0]" for chain in (EGRESS, HOST)]
            # All in one step or none; other chains stay.
            text = "\n".join(["*filter", *declared, *wanted, "COMMIT", ""])
            _read([f"{family}-restore", "-w", _LOCK_SECONDS, "--noflush"], environment, text)
        for parent, chain in _hooks(saved):
            if not _change(family, ["-C", parent, "-j", chain], environment) and not _change(
                family, ["-I", parent, "1", "-j", chain], environment
            ):
                raise ClusterError(f"{family}: no rule can be put into {parent}; are you root?")


def remove(environment: Mapping[str, str]) -> None:
    """Take our chains out again; nothing happens if there are none. Raises ClusterError if the filter cannot be read."""
    for family in _families(environment):
        saved = _filter(family, environment)
        for parent, chain in (*_hooks(saved), ("FORWARD", EGRESS)):
            while _change(family, ["-D", parent, "-j", chain], environment):
                pass
        for chain in (EGRESS, HOST):
            if has_chain(saved, chain):
                _change(family, ["-F", chain], environment)
                _change(family, ["-X", chain], environment)


def egress_packets(environment: Mapping[str, str]) -> int:
    """The packets rejected on their way out since the rules were set. Raises ClusterError if they are not set."""
    saved = [_filter(family, environment, "-c") for family in _families(environment)]
    if not saved or not all(map(is_set, saved)):
        raise ClusterError("the rules that let nothing out of the machine are not set: `make kind` sets them, as root")
    return sum(map(rejected, saved))


def rejected(saved: str) -> int:
    """The packets that the rejecting rules of our outward chain counted, in a table saved with counters."""
    return sum(int(count) for count in re.findall(rf"^\[(\d+):\d+\] -A {EGRESS} .*-j REJECT", saved, re.MULTILINE))


def is_set(saved: str) -> bool:
    """Is our outward chain there, with a rule that rejects, and reached from the chain that forwards packets?"""
    rejects = re.search(rf"-A {EGRESS} .*-j REJECT", saved)
    return rejects is not None and re.search(rf"-A (DOCKER-USER|FORWARD) -j {EGRESS}", saved) is not None


def has_chain(saved: str, chain: str) -> bool:
    """Is there such a chain in a saved table?"""
    return re.search(rf"^:{re.escape(chain)} ", saved, re.MULTILINE) is not None


def _ours(saved: str) -> list[str]:
    return [line for line in saved.splitlines() if line.startswith((f"-A {EGRESS} ", f"-A {HOST} "))]


def _hooks(saved: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("DOCKER-USER" if has_chain(saved, "DOCKER-USER") else "FORWARD", EGRESS), ("INPUT", HOST)


def _families(environment: Mapping[str, str]) -> list[str]:
    """The commands of this host: for IPv4 always, for IPv6 if the kernel has it."""
    names = ["iptables", "ip6tables"] if Path("/proc/net/if_inet6").exists() else ["iptables"]
    return [name for name in names if program(name, environment) is not None]


def _change(family: str, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Call it; False if the kernel refuses, as for a rule that is not there."""
    argv = [_command(family, environment), "-w", _LOCK_SECONDS, *arguments]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _filter(family: str, environment: Mapping[str, str], *options: str) -> str:
    """The filter as text, one rule a line. Raises ClusterError if it cannot be read."""
    return _read([f"{family}-save", "-t", "filter", *options], environment)


def _read(argv: Sequence[str], environment: Mapping[str, str], text: str = "") -> str:
    """The output of a program that is given ``text``. Raises ClusterError."""
    call = [_command(argv[0], environment), *argv[1:]]
    done = subprocess.run(call, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}; this needs root")
    return done.stdout


def _command(name: str, environment: Mapping[str, str]) -> str:
    found = program(name, environment)
    if found is None:
        raise ClusterError(f"there is no `{name}`; install iptables")
    return str(found)
