from __future__ import annotations

from fractions import Fraction

import pytest

from clusters.kubelet.amounts import amount_of, is_extended, requests_of
from tests.clusters.kubelet.pods_of_tests import container, pod
from tests.clusters.kubelet.small_plugin import RESOURCE


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("14", 14),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("10k", 10_000),
        ("1Ki", 1024),
        ("2Gi", 2 * 2**30),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_quantities_are_read(text, amount) -> None:
    """Every suffix of Kubernetes is exact."""
    assert amount_of(text) == amount


@pytest.mark.parametrize("text", ["", "GiB", "1 Gi", "1KiB", "0x10", "--1"])
def test_other_texts_are_refused(text) -> None:
    """The error names the text."""
    with pytest.raises(ValueError, match="is not a quantity"):
        amount_of(text)


def test_parallel_containers_add_up_and_start_may_need_more() -> None:
    """Sidecars count beside containers; an init container counts beside the sidecars before it."""
    inits = (container("small", 1), container("side", 2, restartPolicy="Always"), container("big", 7))

    assert requests_of(pod("p", container("a", 3), container("b", 1), inits=inits)) == {RESOURCE: 9}
    assert requests_of(pod("p", container("a", 8), inits=inits)) == {RESOURCE: 10}


def test_kubernetes_own_resources_are_not_extended() -> None:
    """A name needs a domain that is not Kubernetes' own."""
    assert [is_extended(name) for name in ("cpu", "aliyun.com/gpu-mem", "x.kubernetes.io/y")] == [False, True, False]
