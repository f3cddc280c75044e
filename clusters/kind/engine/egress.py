"""Nothing leaves the machine from our containers, and what tried is counted.

Two chains of ours in the filter of each family. ``GPUSHARE-EGRESS`` hangs in DOCKER-USER, which Docker keeps before all rules
of its own and never changes, or in FORWARD if there is none: packets from a bridge of ours go to a bridge of ours or are
rejected. ``GPUSHARE-HOST`` hangs in INPUT: containers answer this host and ask it nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from clusters.kind.engine import iptables
from clusters.provider import ClusterError

EGRESS: Final = "GPUSHARE-EGRESS"
HOST: Final = "GPUSHARE-HOST"
# A program that gets a reset or an error reports it immediately; one with packets that vanish waits for minutes.
_ERRORS: Final = {"iptables": "icmp-port-unreachable", "ip6tables": "icmp6-port-unreachable"}


def rules(bridges: Sequence[str], family: str) -> list[str]:
    """The rules of both chains, in the order in which they are asked, worded as the kernel's list words them."""
    rejects = ["-p tcp -j REJECT --reject-with tcp-reset", f"-j REJECT --reject-with {_ERRORS[family]}"]
    within = [f"-A {EGRESS} -i {source} -o {target} -j RETURN" for source in bridges for target in bridges]
    out = [f"-A {EGRESS} -i {bridge} {reject}" for bridge in bridges for reject in rejects]
    answers = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN"
    host = [f"-A {HOST} -i {bridge} {what}" for bridge in bridges for what in (answers, *rejects)]
    return [*within, *out, *host]


def ensure(bridges: Sequence[str], environment: Mapping[str, str]) -> None:
    """Set the rules for these bridges; if they are set already the counters go on. Raises ClusterError."""
    for family in iptables.families(environment):
        saved = iptables.save(family, "filter", environment)
        wanted = rules(bridges, family)
        if sorted(_ours(saved)) != sorted(wanted):
            iptables.restore(family, "\n".join(["*filter", *_declared(), *wanted, "COMMIT", ""]), environment)
        for parent, chain in _hooks(saved):
            if iptables.run(family, ["-C", parent, "-j", chain], environment):
                continue
            if not iptables.run(family, ["-I", parent, "1", "-j", chain], environment):
                raise ClusterError(f"{family}: no rule can be put into {parent}; are you root?")


def remove(environment: Mapping[str, str]) -> None:
    """Take our chains out again; nothing happens if there are none. Raises ClusterError if the filter cannot be read."""
    for family in iptables.families(environment):
        saved = iptables.save(family, "filter", environment)
        for parent, chain in (*_hooks(saved), ("FORWARD", EGRESS)):
            while iptables.run(family, ["-D", parent, "-j", chain], environment):
                pass
        for chain in (EGRESS, HOST):
            if iptables.has_chain(saved, chain):
                iptables.run(family, ["-F", chain], environment)
                iptables.run(family, ["-X", chain], environment)


def egress_packets(environment: Mapping[str, str]) -> int:
    """The packets rejected on their way out since the rules were set. Raises ClusterError if they are not set."""
    saved = [iptables.save(one, "filter", environment, counters=True) for one in iptables.families(environment)]
    if not saved or not all(map(is_set, saved)):
        raise ClusterError(
            "the rules that let nothing out of the machine are not set: `make docker` sets them, as root"
        )
    return sum(map(rejected, saved))


def rejected(saved: str) -> int:
    """The packets that the rejecting rules of our outward chain counted, in a table saved with counters."""
    return sum(int(count) for count in re.findall(rf"^\[(\d+):\d+\] -A {EGRESS} .*-j REJECT", saved, re.MULTILINE))


def is_set(saved: str) -> bool:
    """Is our outward chain there, with a rule that rejects, and reached from the chain that forwards packets?"""
    rejects = re.search(rf"-A {EGRESS} .*-j REJECT", saved)
    return rejects is not None and re.search(rf"-A (DOCKER-USER|FORWARD) -j {EGRESS}", saved) is not None


def _ours(saved: str) -> list[str]:
    return [line for line in saved.splitlines() if line.startswith((f"-A {EGRESS} ", f"-A {HOST} "))]


def _declared() -> list[str]:
    return [f":{EGRESS} - [0:0]", f":{HOST} - [0:0]"]


def _hooks(saved: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("DOCKER-USER" if iptables.has_chain(saved, "DOCKER-USER") else "FORWARD", EGRESS), ("INPUT", HOST)
