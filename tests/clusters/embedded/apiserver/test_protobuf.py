"""Promises of clusters.embedded.apiserver.protobuf: what kubectl's own commands send is read."""

from __future__ import annotations

import pytest

from clusters.embedded.apiserver.protobuf import decoded


def part(number: int, content: bytes | str | int) -> bytes:
    """One field: a number, or bytes of less than 128."""
    if isinstance(content, int):
        return bytes([number << 3, content])
    data = content.encode() if isinstance(content, str) else content
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def sent(api_version: str, kind: str, message: bytes) -> bytes:
    """A body as clients in Go send it."""
    return b"k8s\x00" + part(1, part(1, api_version) + part(2, kind)) + part(2, message) + part(3, "") + part(4, "")


def test_a_question_about_access() -> None:
    """A request of kubectl auth can-i; texts that are empty are absent."""
    wish = part(1, "default") + part(2, "list") + part(3, "") + part(5, "pods")
    body = sent("authorization.k8s.io/v1", "SelfSubjectAccessReview", part(1, b"") + part(2, part(1, wish)))
    assert decoded(body) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"}},
    }


def test_maps_lists_flags_numbers_and_times() -> None:
    """The objects that such commands create."""
    metadata = (
        part(1, "c") + part(11, part(1, "a") + part(2, "b")) + part(8, part(1, 100)) + part(14, "f") + part(14, "g")
    )
    found = decoded(sent("v1", "ConfigMap", part(1, metadata) + part(2, part(1, "k")) + part(4, 1)))
    assert found is not None
    assert found["metadata"] == {
        "name": "c",
        "labels": {"a": "b"},
        "creationTimestamp": "1970-01-01T00:01:40Z",
        "finalizers": ["f", "g"],
    }
    assert (found["data"], found["immutable"]) == ({"k": ""}, True)


def test_unknown_fields_are_passed_over() -> None:
    """Quantities of any form."""
    unknown = bytes([30 << 3 & 0x7F | 0x80, 1, 5]) + bytes([1 << 3 | 5]) + b"1234" + bytes([1 << 3 | 1]) + b"12345678"
    assert decoded(sent("v1", "Namespace", unknown + part(1, part(1, "n")))) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n"},
    }


def test_a_kind_that_is_not_known_is_none() -> None:
    """The caller's error has the remedy."""
    assert decoded(sent("v1", "Pod", b"")) is None


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"k8s\x00\xff", b"k8s\x00\x0a\x50", b"k8s\x00\x0f", b"k8s\x00\x0a\x03\x0a\x01\xff"]
)
def test_what_is_no_such_body_is_an_error(body: bytes) -> None:
    """Never an answer of half of it."""
    with pytest.raises(ValueError, match="."):
        decoded(body)
