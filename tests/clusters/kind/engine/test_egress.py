"""Promises of clusters.kind.engine.egress: what it makes of the packet filter's text, and what becomes of real packets."""

from __future__ import annotations

import sys

import pytest

from clusters.kind.engine.egress import EGRESS, has_chain, is_set, rejected, rules
from tests.clusters.kind.engine.other_machine import DOCKER_RUN, IMAGE, TRY, Machine

COUNTED = f"""*filter
:{EGRESS} - [0:0]
[9:900] -A DOCKER-USER -j {EGRESS}
[1000:2000] -A {EGRESS} -i b -o b -j ACCEPT
[3:180] -A {EGRESS} -i b -p tcp -j REJECT --reject-with tcp-reset
[4:240] -A {EGRESS} -i b -j REJECT --reject-with icmp-port-unreachable
[70:1] -A OTHER -i b -j REJECT --reject-with icmp-port-unreachable
COMMIT
"""


def test_what_was_rejected_is_summed_and_nothing_else() -> None:
    """The sum counts the packets that our rules reject, not those between nodes or those that other chains reject."""
    assert rejected(COUNTED) == 3 + 4


def test_a_chain_that_is_not_reached_is_not_set_up() -> None:
    """A chain that hangs nowhere rejects nothing, and one that rejects nothing lets all out."""
    unhung = COUNTED.replace(f"-A DOCKER-USER -j {EGRESS}", "-A DOCKER-USER -j RETURN")
    open_to_all = "\n".join(line for line in COUNTED.splitlines() if "REJECT" not in line)

    assert is_set(COUNTED)
    assert is_set(COUNTED.replace("DOCKER-USER", "FORWARD"))
    assert not is_set(unhung)
    assert not is_set(open_to_all)


def test_a_chain_is_found_by_its_whole_name() -> None:
    """DOCKER is not DOCKER-USER."""
    saved = ":DOCKER-USER - [0:0]\n"

    assert (has_chain(saved, "DOCKER-USER"), has_chain(saved, "DOCKER")) == (True, False)


@pytest.mark.parametrize("family", ["iptables", "ip6tables"])
def test_each_bridge_is_rejected_after_the_rule_between_bridges(family: str) -> None:
    """The order decides: the first rule that fits."""
    outward = [rule for rule in rules(["a", "b"], family) if EGRESS in rule]
    last_within = max(place for place, rule in enumerate(outward) if "ACCEPT" in rule)
    rejects = [place for place, rule in enumerate(outward) if "REJECT" in rule]

    assert last_within < min(rejects)
    assert {rule.partition(" -i ")[2][0] for rule in outward if rule.endswith("port-unreachable")} == {"a", "b"}


@pytest.mark.parametrize("network", ["gpushare-kind", "bridge"])
def test_nothing_leaves_the_machine_and_what_tried_is_counted(shared: Machine, network: str) -> None:
    """Rejected immediately, on the nodes' network and on Docker's own; the device that leads outside sees no packet."""
    before, sent = shared.counted(), shared.sent_outside()
    tried = shared.run(*DOCKER_RUN, "--network", network, IMAGE, *TRY, good=False)

    assert "Connection refused" in tried.stderr
    assert shared.counted() > before
    assert shared.sent_outside() == sent


def test_the_way_out_would_have_taken_it(shared: Machine) -> None:
    """The device that must see nothing sees what this machine itself sends: the test above can fail."""
    sent = shared.sent_outside()
    shared.run(*TRY, good=False)

    assert shared.sent_outside() > sent


def test_containers_ask_this_machine_nothing(shared: Machine) -> None:
    """A listener on all addresses of the machine is not for nodes."""
    address = shared.run("docker", "network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "gpushare-kind")
    listen = f"import socket, time; s = socket.create_server(('{address.stdout.strip()}', 8099)); time.sleep(100)"
    server = f'exec {sys.executable} -c "{listen}"'
    ask = f"exec 3<>/dev/tcp/{address.stdout.strip()}/8099"
    shared.run("sh", "-c", f"({server}) >/dev/null 2>&1 & echo $! > {shared.run_folder}/server")
    try:
        shared.run("bash", "-c", f"until {ask}; do sleep 0.1; done")
        within = shared.run(*DOCKER_RUN, "--network", "gpushare-kind", IMAGE, "bash", "-c", ask, good=False)
    finally:
        shared.run("kill", (shared.run_folder / "server").read_text().strip())

    assert "Connection refused" in within.stderr


def test_an_unknown_name_is_not_looked_up(shared: Machine) -> None:
    """The resolver that containers are given does not exist; no packet is sent for it."""
    before, sent = shared.counted(), shared.sent_outside()
    look_up = "exec 3<>/dev/tcp/name.example/80"
    shared.run(*DOCKER_RUN, "--network", "gpushare-kind", IMAGE, "bash", "-c", look_up, good=False)

    assert (shared.counted(), shared.sent_outside()) == (before, sent)
