"""Each container sees the card in its pod's annotation, and gets the right amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from e2e import spec
from e2e.checkers.pod_requests import gpu_containers, units_of

# Values of the variable with which NVIDIA's runtime takes the card from a mount or from CDI.
_OTHER_MEANS: Final = ("/var/run/nvidia-container-devices", "void")

_UUID: Final = "GPU-"


def check_pod(
    pod: Mapping[str, Any],
    containers: Sequence[Mapping[str, str]],
    uuids: Mapping[int, str],
    *,
    totals: bool = True,
    by_other_means: bool = False,
) -> list[str]:
    """Findings for one pod; ``containers`` are the variables of its GPU containers in their order.

    Without ``totals`` the pod's sum is not looked at: ``wrong_totals`` has the reason. With ``by_other_means`` the card may be
    given as a mount or as a device of CDI, which the container's variables do not show, or by a UUID that is not known.
    """
    name = pod["metadata"]["name"]
    annotations = pod["metadata"].get("annotations") or {}
    index = annotations.get(spec.POD_INDEX)
    if index is None:
        return [f"{name}: no annotation names a card"]
    uuid = next((uuid for card, uuid in uuids.items() if str(card) == index), None)
    amounts = [str(one.units) for one in gpu_containers(pod)]
    findings = []
    if len(containers) != len(amounts):
        findings.append(f"{name}: {len(amounts)} containers ask for memory, {len(containers)} were told something")
    total = str(units_of(pod))
    for number, (given, amount) in enumerate(zip(containers, amounts, strict=False)):
        expected = {spec.ENV_INDEX: index, spec.ENV_CONTAINER_UNITS: amount}
        expected |= {spec.ENV_POD_UNITS: total} if totals else {}
        findings += [
            f"{name} container {number}: {key} is {given.get(key)}, should be {value}"
            for key, value in expected.items()
            if given.get(key) != value
        ]
        shown = given.get(spec.ENV_VISIBLE, "")
        is_right = shown in (uuid, index)
        # A node that does not publish UUIDs leaves open which card has this one.
        is_open = shown in _OTHER_MEANS or (shown.startswith(_UUID) and uuid is None)
        if not is_right and not (by_other_means and is_open):
            findings.append(f"{name} container {number}: sees {given.get(spec.ENV_VISIBLE)}, should see card {index}")
    if annotations.get(spec.POD_ASSIGNED) != "true":
        findings.append(f"{name}: is not marked assigned")
    return findings


def wrong_totals(pod: Mapping[str, Any], containers: Sequence[Mapping[str, str]]) -> int:
    """The number of a pod's containers that got another sum than their pod's.

    Whose an Allocate is follows from the order of bindings. A kubelet that starts goes by another order, and one that finds a
    pod deleted passes over it. An Allocate may then be taken for another pod's container of the same amount: card and amount
    are put right before the container starts, the variable with the sum of the pod cannot be.
    """
    return sum(given.get(spec.ENV_POD_UNITS) != str(units_of(pod)) for given in containers)
