"""The invariants of a cluster that shares cards, judged from what its API server shows. Pure.

``judge`` returns what is wrong. A rule is one function; the first line of its docstring is the promise that reports print.
Only the traceback of an error that no rule expects goes to a log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from e2e.site import node_invariants, pod_invariants
from e2e.site.findings import Finding
from e2e.site.picture import Picture, without_odd
from e2e.site.unexpected import not_judged

Rule = Callable[[Picture], Iterator[Finding]]

COMPONENTS: Final = {"gpushare-device-plugin": "device plugin", "gpushare-schd-extender": "extender"}


def judge(picture: Picture) -> list[Finding]:
    """All that is wrong in the picture. A node that a rule cannot judge is a finding, and the rule goes on with the others."""
    return [finding for name, rule in RULES.items() for finding in _judged(name, rule, picture)]


def _judged(name: str, rule: Rule, picture: Picture) -> list[Finding]:
    try:
        return list(rule(picture))
    except Exception as error:
        odd, rest = without_odd(rule, picture)
        others = _judged(name, rule, rest) if odd else []
        whys = odd or {"cluster": error}
        return [*others, *(Finding("warning", name, one, *not_judged(why)) for one, why in whys.items())]


def versions(picture: Picture) -> Iterator[Finding]:
    """The extender and the device plugins are of one version."""
    found: dict[str, set[str]] = defaultdict(set)
    for pod in picture.pods:
        component = (pod["metadata"].get("labels") or {}).get("component", "")
        if component in COMPONENTS and pod.get("status", {}).get("phase") == "Running":
            for container in pod["spec"]["containers"]:
                repository, version = _image(container.get("image", ""))
                # The originals' programs have a project each, and versions of their own.
                key = "gpushare" if repository.split("/")[-2:-1] == ["gpushare"] else component
                found[key].add(f"{COMPONENTS[component]} {version}")
    for parts in found.values():
        if len({part.rsplit(" ", 1)[1] for part in parts}) > 1:
            todo = "finish the roll-out: kubectl --namespace kube-system rollout status, for the DaemonSet and the Deployment"
            text = f"these run at the same time: {', '.join(sorted(parts))}"
            yield Finding("warning", "version-skew", "programs", text, todo)


def _image(name: str) -> tuple[str, str]:
    """An image's repository, and its tag or digest."""
    name, _, digest = name.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return name, digest or "latest"
    return repository, digest or tag


RULES: Final[Mapping[str, Rule]] = {
    "cards annotation": node_invariants.cards_annotation,
    "capacity": node_invariants.capacity,
    "unhealthy cards": node_invariants.unhealthy_cards,
    "over-booked cards": node_invariants.over_booked,
    "pod annotations": pod_invariants.pod_annotations,
    "forged annotations": pod_invariants.forged,
    "pods without the extender": pod_invariants.bypassed,
    "stuck pods": pod_invariants.stuck,
    "versions": versions,
}
