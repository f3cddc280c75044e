"""kube-scheduler's file that names the extender, for each release of Kubernetes.

Its fields are the same in all versions of KubeSchedulerConfiguration; the Policy of older releases names two of them otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gpushare import wire
from gpushare.foreign import decode_yaml
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.yaml_edit import Entry, applied, load, mapping

# The minors of Kubernetes 1 that are known.
OLDEST: Final = 17
NEWEST: Final = 36
EXTENDER_URL: Final = f"http://127.0.0.1:12345{wire.PATH_PREFIX}"
# Where the original's manifests offer the extender on each node.
ORIGINAL_URL: Final = f"http://127.0.0.1:32766{wire.PATH_PREFIX}"
KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
VERBS: Final = ("filter", "prioritize", "preempt", "bind")
FIELDS: Final = frozenset({
    "urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb", "enableHTTPS", "tlsConfig", "httpTimeout",
    "nodeCacheCapable", "managedResources", "ignorable",
})  # fmt: skip
_POLICY: Final = "Policy"
_GROUP: Final = "kubescheduler.config.k8s.io"
# The first minor that each version is written for, and the versions that it reads.
_VERSIONS: Final = {
    19: ("v1beta1",),
    22: ("v1beta2", "v1beta1"),
    23: ("v1beta3", "v1beta2"),
    25: ("v1", "v1beta3", "v1beta2"),
    28: ("v1", "v1beta3"),
    29: ("v1",),
}
# The first minor of which NodeResourcesFit takes a strategy.
_SCORES: Final = 22
# The choices of ``--node-scores``, and the strategy of each; the extender needs none.
EXTENDER_SCORES: Final = "extender"
STRATEGIES: Final = {EXTENDER_SCORES: "", "binpack": "MostAllocated", "spread": "LeastAllocated"}
_FIT: Final = "NodeResourcesFit"
_SCORED_BY: Final = {
    one: f"{_FIT} ({strategy})" if strategy else "the extender" for one, strategy in STRATEGIES.items()
}
# A Policy's durations are numbers of nanoseconds.
_SECONDS: Final = 10
_NANOSECONDS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM, by the paths that kube-scheduler sees."""

    ca: str
    certificate: str = ""
    key: str = ""


def reads_policy_only(minor: int) -> bool:
    """Does this release know extenders in no other file than a Policy?"""
    return minor < min(_VERSIONS)


def versions_read(minor: int) -> tuple[str, ...]:
    """The versions of KubeSchedulerConfiguration with extenders that this release reads, the one to write first."""
    return next((versions for first, versions in sorted(_VERSIONS.items(), reverse=True) if minor >= first))


def scheduler_file(
    minor: int,
    extender_url: str = EXTENDER_URL,
    tls: Tls | None = None,
    *,
    kubeconfig: str = KUBECONFIG,
    scores: str = EXTENDER_SCORES,
) -> str:
    """The file for Kubernetes 1.``minor``; ``scores`` is one of ``STRATEGIES``. Raises SetupRefusedError."""
    if STRATEGIES[scores] and minor < _SCORES:
        raise SetupRefusedError(
            f"kube-scheduler of Kubernetes 1.{minor} cannot score nodes by card memory (1.{_SCORES} and newer can)",
            f"leave out --node-scores, or pass --node-scores={EXTENDER_SCORES}",
        )
    document = _document(minor, extender_url, _verbs(scores), tls, kubeconfig, STRATEGIES[scores])
    if document["kind"] == _POLICY:
        return json.dumps(document, indent=2) + "\n"
    head = f"# Of kube-scheduler of Kubernetes 1.{minor}, which reads it at its start; written by gpushare-setup.\n"
    return head + yaml.safe_dump(document, sort_keys=False)


def extender_entry(document: Any, extender_url: str, tls: Tls | None) -> Entry:
    """gpushare's extender in a person's own file of kube-scheduler."""
    is_policy = mapping(document).get("kind") == _POLICY
    verbs = _verbs(scores_of(document))
    return Entry(("extenders",), _extender(extender_url, verbs, tls, is_policy=is_policy), is_item=True)


def extended(text: str, path: str, extender_url: str, tls: Tls | None) -> str:
    """A person's own file with gpushare's extender; all else stays. Raises SetupRefusedError."""
    return applied(text, [extender_entry(load(text, path), extender_url, tls)], path)


def _document(
    minor: int, url: str, verbs: Collection[str], tls: Tls | None, kubeconfig: str, strategy: str
) -> dict[str, Any]:
    if not OLDEST <= minor <= NEWEST:
        raise SetupRefusedError(
            f"Kubernetes 1.{minor} is not known here (1.{OLDEST} to 1.{NEWEST})",
            "use a gpushare-setup of that release, or pass --kubernetes with a release whose file yours reads",
        )
    is_policy = reads_policy_only(minor)
    extenders = [_extender(url, verbs, tls, is_policy=is_policy)]
    if is_policy:
        return {"kind": _POLICY, "apiVersion": "v1", "extenders": extenders}
    return {
        "apiVersion": f"{_GROUP}/{versions_read(minor)[0]}",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "leaderElection": {"leaderElect": True},
        "profiles": [{"schedulerName": "default-scheduler", **_scored(strategy)}],
        "extenders": extenders,
    }


def _verbs(scores: str) -> list[str]:
    return [verb for verb in VERBS if verb != "prioritize" or scores == EXTENDER_SCORES]


def scores_of(document: Any) -> str:
    """The choice among ``STRATEGIES`` that a file makes: kube-scheduler's if a profile of it looks at card memory."""
    profiles = _mappings(mapping(document).get("profiles"))
    for one in (plugin for profile in profiles for plugin in _mappings(profile.get("pluginConfig"))):
        scoring = mapping(one, "args", "scoringStrategy")
        names = [each.get("name") for each in _mappings(scoring.get("resources"))]
        if one.get("name") == _FIT and wire.RESOURCE_MEMORY in names:
            return next((each for each, of in STRATEGIES.items() if of == scoring.get("type")), EXTENDER_SCORES)
    return EXTENDER_SCORES


def _mappings(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _scored(strategy: str) -> dict[str, Any]:
    """The part of a profile that chooses nodes that are fuller, or emptier, by card memory alone."""
    if not strategy:
        return {}
    scoring = {"type": strategy, "resources": [{"name": wire.RESOURCE_MEMORY, "weight": 1}]}
    return {"pluginConfig": [{"name": _FIT, "args": {"scoringStrategy": scoring}}]}


def _extender(url: str, verbs: Collection[str], tls: Tls | None, *, is_policy: bool) -> dict[str, Any]:
    """Never ignorable: kube-scheduler would bind without gpushare, and the pod would start without a card."""
    of_tls = {"caFile": tls.ca, "certFile": tls.certificate, "keyFile": tls.key} if tls is not None else {}
    return {
        "urlPrefix": url,
        **{f"{verb}Verb": verb for verb in VERBS if verb in verbs},
        **({"weight": 1} if "prioritize" in verbs else {}),
        "enableHttps" if is_policy else "enableHTTPS": tls is not None,
        **({"tlsConfig": {key: path for key, path in of_tls.items() if path}} if tls is not None else {}),
        "httpTimeout": _SECONDS * _NANOSECONDS if is_policy else f"{_SECONDS}s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": wire.RESOURCE_MEMORY, "ignoredByScheduler": False}],
        "ignorable": False,
    }


def extenders_of(document: Any) -> list[dict[str, Any]]:
    """The extenders that a file names."""
    return _mappings(mapping(document).get("extenders"))


def is_gpushares(extender: dict[str, Any]) -> bool:
    """Is it gpushare's or the original's?"""
    return str(extender.get("urlPrefix")).removesuffix("/").endswith(wire.PATH_PREFIX)


def tls_of(extender: dict[str, Any]) -> Tls | None:
    """The files of TLS that a file names for its extender."""
    files = mapping(extender, "tlsConfig")
    found = Tls(*(str(files.get(key) or "") for key in ("caFile", "certFile", "keyFile")))
    return found if found.ca else None


def is_written_here(document: Any) -> bool:
    """Is the document what ``scheduler_file`` writes for some release, URL and files?"""
    ours = extenders_of(document)
    if len(ours) != 1:
        return False
    kubeconfig = str(mapping(document, "clientConnection").get("kubeconfig"))
    verbs = [verb for verb in VERBS if f"{verb}Verb" in ours[0]]
    url = str(ours[0].get("urlPrefix"))
    return any(
        _document(minor, url, verbs, tls_of(ours[0]), kubeconfig, strategy) == document
        for minor in (OLDEST, *_VERSIONS)
        for strategy in STRATEGIES.values()
    )


def is_originals(document: Any) -> bool:
    """Does the file ask the extender as the original's does: at the port of its node, and neither to prioritize nor to preempt?"""
    ours = [one for one in extenders_of(document) if is_gpushares(one)]
    return (
        len(ours) == 1
        and ours[0].get("urlPrefix") == ORIGINAL_URL
        and not {"prioritizeVerb", "preemptVerb"} & {*ours[0]}
    )


def as_original(wanted: str) -> str:
    """The text in which a file that asks as the original's has no fault."""
    document = decode_yaml(wanted)
    for one in document["extenders"]:
        if is_gpushares(one):
            one["urlPrefix"] = ORIGINAL_URL
            for name in ("prioritizeVerb", "preemptVerb", "weight"):
                one.pop(name, None)
    return yaml.safe_dump(document)


def file_faults(document: Any, minor: int, right_text: str) -> list[str]:
    """The faults of a file of kube-scheduler, with the text that it has to have."""
    if not isinstance(document, dict):
        return ["no document of kube-scheduler"]
    kind, version = document.get("kind"), document.get("apiVersion")
    wanted = _POLICY if reads_policy_only(minor) else "KubeSchedulerConfiguration"
    if kind != wanted:
        return [f"kind {kind!r}, but Kubernetes 1.{minor} reads {wanted!r} with extenders"]
    readable = ["v1"] if kind == _POLICY else [f"{_GROUP}/{one}" for one in versions_read(minor)]
    if version not in readable:
        return [f"Kubernetes 1.{minor} does not read {version!r}, but {', '.join(readable)}"]
    ours = [one for one in extenders_of(document) if is_gpushares(one)]
    if len(ours) != 1:
        return [f"gpushare's extender is there {len(ours)} times, and not once"]
    right = decode_yaml(right_text)
    (wished,) = (one for one in extenders_of(right) if is_gpushares(one))
    found = [*_extender_faults(ours[0], wished, is_policy=kind == _POLICY)]
    if any("bindVerb" in one for one in extenders_of(document) if one is not ours[0]):
        found.append("another extender binds too, and only one may")
    if (scores := scores_of(document)) != (asked := scores_of(right)):
        found.append(f"nodes are scored by {_SCORED_BY[scores]}, and not by {_SCORED_BY[asked]}")
    if document.get("clientConnection") != right.get("clientConnection"):
        found.append(f"clientConnection is {document.get('clientConnection')}, and not {right.get('clientConnection')}")
    return found


def _extender_faults(extender: dict[str, Any], right: dict[str, Any], *, is_policy: bool) -> Iterator[str]:
    """A release that reads a Policy takes fields in any case; others end at one that they do not know."""
    for name in sorted(set(extender) - FIELDS - ({"enableHttps"} if is_policy else set())):
        yield f"unknown field {name!r} of the extender, which stops kube-scheduler"
    for name, value in right.items():
        if name not in ("weight", "httpTimeout") and extender.get(name, False) != value:
            yield f"{name} of the extender is {extender.get(name)!r}, and not {value!r}"
    timeout = extender.get("httpTimeout", right["httpTimeout"])
    if not isinstance(timeout, type(right["httpTimeout"])):
        form = "number of nanoseconds" if is_policy else f"text such as {right['httpTimeout']}"
        yield f"httpTimeout of the extender is {timeout!r}, and no {form}"
