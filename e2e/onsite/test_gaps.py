"""Promises of e2e.onsite.gaps."""

from __future__ import annotations

import pytest

from clusters.api.api_client import ApiError
from e2e.onsite.gaps import not_judged, unless_refused, why_not_judged
from e2e.onsite.site import Site
from e2e.onsite.test_onsite import hold
from e2e.site.validation_namespace import NAMESPACE


def test_the_reason_of_a_gap_is_found_again() -> None:
    """The reason of a gap has a mark, and that of another skip has none."""
    with pytest.raises(pytest.skip.Exception) as caught:
        not_judged("no room")

    assert why_not_judged(str(caught.value)) == "no room"
    assert why_not_judged("no room") == ""


@pytest.mark.parametrize(
    ("code", "message", "is_gap"),
    [
        (403, "exceeded quota: site", True),
        (400, 'admission webhook "validate.kyverno.svc-fail" denied the request: no', True),
        (422, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", True),
        (500, 'failed calling webhook "validate.kyverno.svc-fail"', True),
        (422, "spec.nodeName: Forbidden", False),
        (500, "etcd", False),
    ],
)
def test_a_refusal_is_a_gap_and_another_error_is_none(code: int, message: str, is_gap: bool) -> None:
    """Quotas, policies and rights refuse a pod whatever sharing does; a pod that is not valid is a fault."""
    with pytest.raises(pytest.skip.Exception if is_gap else ApiError, match=message), unless_refused():
        raise ApiError(code, "", message)


@pytest.mark.stand_in_only("a real API server needs a while to count for a new quota")
@pytest.mark.usefixtures("clean")
async def test_a_pod_beyond_a_quota_leaves_a_gap(site: Site, node: str) -> None:
    """The reason of the case has the API server's message."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "site"},
        "spec": {"hard": {"pods": "0"}},
    }
    room = await site.needs(node, 1)
    await site.api.create(quota, NAMESPACE)
    try:
        with pytest.raises(
            pytest.skip.Exception, match=r"^not judged: the cluster refuses the pod: .*exceeded quota: site"
        ):
            await hold(site, room, "held", 1, seconds=0, mib=0)
    finally:
        await site.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/site")
