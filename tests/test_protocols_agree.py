"""The product's and the stand-in kubelet's messages were written apart; on the wire they must be the same."""

from __future__ import annotations

from typing import Any

from clusters.kubelet.proto import deviceplugin_pb2 as kubelet_plugin
from clusters.kubelet.proto import podresources_pb2 as kubelet_resources
from gpushare.deviceplugin.proto import deviceplugin_pb2 as product_plugin
from gpushare.deviceplugin.proto import podresources_pb2 as product_resources


def shape(file: Any) -> dict[str, dict[int, tuple[Any, ...]]]:
    """By message, by field number: type, repeated or not, and the message that a field holds."""
    return {
        name: {
            field.number: (field.type, field.is_repeated, field.message_type.full_name if field.message_type else None)
            for field in message.fields
        }
        for name, message in file.DESCRIPTOR.message_types_by_name.items()
    }


def methods(file: Any) -> dict[str, tuple[str, str, bool]]:
    """By full name: what goes in, what comes out, and whether it streams."""
    return {
        f"{service.full_name}/{method.name}": (
            method.input_type.full_name,
            method.output_type.full_name,
            method.server_streaming,
        )
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_the_device_plugin_api_is_one() -> None:
    """Every message, every field, every call."""
    assert shape(product_plugin) == shape(kubelet_plugin)
    assert methods(product_plugin) == methods(kubelet_plugin)


def test_product_reads_the_pod_resources_that_the_kubelet_writes() -> None:
    """The product names only the fields that it reads."""
    theirs = shape(kubelet_resources)
    for name, fields in shape(product_resources).items():
        for number, field in fields.items():
            assert theirs[name][number] == field
    assert set(methods(product_resources).items()) <= set(methods(kubelet_resources).items())


def test_each_has_a_pool_of_its_own() -> None:
    """Each module of messages has its own pool, so that one process can hold them all."""
    modules: list[Any] = [product_plugin, product_resources, kubelet_plugin, kubelet_resources]

    assert len({id(module.DESCRIPTOR.pool) for module in modules}) == len(modules)
