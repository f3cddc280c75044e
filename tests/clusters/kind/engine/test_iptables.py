"""Promises of clusters.kind.engine.iptables: only chains of ours leave a filter, or Docker's if Docker was ours."""

from __future__ import annotations

import pytest

from clusters.kind.engine.iptables import has_chain, has_others, removals

SAVED = """# Generated
*filter
:INPUT ACCEPT [1:2]
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:DOCKERS-OWN - [0:0]
-A INPUT -i eth0 -m comment --comment "a b" -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -o gs0 -j DOCKER
-A FORWARD -i gs0 ! -o gs0 -j ACCEPT
-A FORWARD -i gs01 -j ACCEPT
-A FORWARD -j DOCKERS-OWN
-A DOCKER -d 10.0.0.2/32 ! -i gs0 -o gs0 -j ACCEPT
-A DOCKER -d 10.0.0.3/32 ! -i docker0 -o docker0 -j ACCEPT
-A DOCKER-USER -j RETURN
COMMIT
"""


def test_of_anothers_docker_only_the_rules_about_our_bridge_go() -> None:
    """The rules about our bridge go; another Docker's chains and its rules about its own bridges stay."""
    assert removals(SAVED, ["gs0"], docker_too=False) == [
        ["-D", "FORWARD", "-o", "gs0", "-j", "DOCKER"],
        ["-D", "FORWARD", "-i", "gs0", "!", "-o", "gs0", "-j", "ACCEPT"],
        ["-D", "DOCKER", "-d", "10.0.0.2/32", "!", "-i", "gs0", "-o", "gs0", "-j", "ACCEPT"],
    ]


def test_of_our_docker_its_chains_go_with_all_that_leads_there() -> None:
    """First what leads there, then what is in them, then they themselves; a chain of a similar name stays."""
    calls = removals(SAVED, ["gs0"], docker_too=True)

    assert calls[:3] == [
        ["-D", "FORWARD", "-j", "DOCKER-USER"],
        ["-D", "FORWARD", "-o", "gs0", "-j", "DOCKER"],
        ["-D", "FORWARD", "-i", "gs0", "!", "-o", "gs0", "-j", "ACCEPT"],
    ]
    assert sorted(calls[3:5]) == [["-F", "DOCKER"], ["-F", "DOCKER-USER"]]
    assert sorted(calls[5:]) == [["-X", "DOCKER"], ["-X", "DOCKER-USER"]]


def test_a_chain_is_found_by_its_whole_name() -> None:
    """DOCKER is not DOCKER-USER."""
    saved = ":DOCKER-USER - [0:0]\n"

    assert (has_chain(saved, "DOCKER-USER"), has_chain(saved, "DOCKER")) == (True, False)


# As Docker 20 and 28 leave them, of which gs0 is ours.
DOCKERS = """-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A FORWARD -j DOCKER-USER
-A FORWARD -o gs0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER ! -i gs0 -o gs0 -j DROP
-A DOCKER-FORWARD -j DOCKER-CT
-A DOCKER-CT -m set --match-set docker-ext-bridges-v4 dst -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i gs0 ! -o gs0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-USER -j RETURN
-A INPUT -i eth0 -j ACCEPT
"""


def test_chains_that_only_we_use_are_ours() -> None:
    """A rule that leads from one chain of Docker's to the next is of use to no other."""
    assert not has_others(DOCKERS, ["gs0"])


@pytest.mark.parametrize(
    "rule",
    [
        "-A DOCKER ! -i docker0 -o docker0 -j DROP",
        "-A DOCKER -i docker0 -j RETURN",
        "-A DOCKER-ISOLATION-STAGE-1 -i br-1 ! -o br-1 -j DOCKER-ISOLATION-STAGE-2",
        "-A DOCKER-USER -s 192.0.2.7/32 -j DROP",
        "-A DOCKER-USER -m comment --comment gs1 -j LOG",
    ],
)
def test_chains_with_a_rule_of_anothers_are_theirs(rule: str) -> None:
    """A rule of a Docker that came after ours, or of a user: DOCKER-USER exists for that."""
    assert has_others(f"{DOCKERS}{rule}\n", ["gs0"])
