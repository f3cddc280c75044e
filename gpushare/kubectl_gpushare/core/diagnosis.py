"""The answer of ``doctor``, as a document for programs: what is wrong with an installation and its cards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.kubectl_gpushare.core.explanation import API_VERSION
from gpushare.manifests import Node
from gpushare.model.node import capacity
from gpushare.setup.core.faults import Fault

_LABEL: Final = "gpushare"
_ADVICE: Final = "docs/troubleshooting.md has each event, reason and state"


def diagnosis(
    faults: Iterable[Fault], findings: Iterable[str], nodes: Iterable[Node], hidden: Sequence[str]
) -> dict[str, Any]:
    """``faults`` are those of the installed objects, ``findings`` those of cards and pods (``inspect --check``)."""
    found = [*faults, *_silent_nodes(nodes), *(Fault(text, _ADVICE) for text in findings)]
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "findings": [{"what": fault.what, "do": fault.fix} for fault in found],
        "hidden": list(hidden),
    }


def _silent_nodes(nodes: Iterable[Node]) -> Iterator[Fault]:
    for node in nodes:
        name = node.metadata.name
        if (node.metadata.labels or {}).get(_LABEL) == "true" and not capacity(node, wire.RESOURCE_MEMORY):
            yield Fault(
                f"node {name} has the label {_LABEL}=true and reports no {wire.RESOURCE_MEMORY}",
                f"kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={name}, and the device plugin's log",
            )
