"""Promises of gpushare.deviceplugin.core.limit_devices."""

from __future__ import annotations

import json
import subprocess

import pytest

from gpushare.deviceplugin.core.limit_devices import (
    LimitDevice,
    LimitDevices,
    bundle_text,
    file_text,
    kept,
    read_devices,
    with_pod,
)

SMALL, LARGE, OTHER = LimitDevice("GPU-a-1", 1024), LimitDevice("GPU-a-1", 4096), LimitDevice("GPU-b", 4096)
HOOK = ("/usr/bin/nvidia-cdi-hook", "--driver-root=/run/nvidia/driver")
FOLDER = "/var/run/cdi"
KNOWN: LimitDevices = {SMALL: frozenset("pq"), LARGE: frozenset("q")}


def test_a_file_has_its_devices_and_their_pods() -> None:
    """A process that comes later reads the same."""
    assert read_devices(file_text(KNOWN, HOOK, FOLDER)) == KNOWN
    assert SMALL.full_name == "gpushare.aliyun.com/limit=GPU-a-1-1024"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"devices": 3}',
        b'{"devices": [{"name": "GPU-a"}, {"name": "-1"}, {"name": "all"}]}',
        b"[" * 100_000,
    ],
)
def test_a_file_of_others_has_no_devices(text: bytes) -> None:
    """One that is empty, broken, or of another form is as if it was not there."""
    assert read_devices(text) == {}


def test_a_device_stays_while_a_pod_may_need_it() -> None:
    """A pod that is gone needs none; one that booked and is not named needs its device, too."""
    assert kept(KNOWN, ["p"], {}) == {SMALL: frozenset("p")}
    assert kept(KNOWN, ["q"], {OTHER: frozenset("r")}) == {
        SMALL: frozenset("q"),
        LARGE: frozenset("q"),
        OTHER: frozenset("r"),
    }
    assert kept({}, [], KNOWN) == KNOWN
    assert with_pod({SMALL: frozenset("p")}, [SMALL, OTHER], "q") == {SMALL: frozenset("pq"), OTHER: frozenset("q")}


def test_the_hook_reads_nothing_of_the_container() -> None:
    """NVIDIA's program gets the container's state with our bundle in place of its own, whatever its author wrote into it."""
    (device,) = json.loads(file_text({LARGE: frozenset("q")}, HOOK, FOLDER))["devices"]
    (hook,) = device["containerEdits"]["hooks"]
    at = hook["args"].index(HOOK[0])
    assert hook["args"][at:] == [HOOK[0], "apply-cuda-memory-limits", HOOK[1], "--gpu-id=GPU-a-1"]
    words = {'x"bundle":"y': 'a\\"bundle":"/evil"', "bundle": "/evil", "pid": '"pid":1'}
    state = {"ociVersion": "1.0.2", "pid": 7, "bundle": "/run/b", "annotations": words}
    command = [hook["path"], *hook["args"][1:at], "cat"]

    for separators in ((",", ":"), (", ", ": ")):
        given = json.dumps(state, separators=separators)
        seen = json.loads(
            subprocess.run(command, input=given, env={}, capture_output=True, text=True, check=True).stdout
        )
        assert (seen["bundle"], seen["pid"]) == ("/var/run/cdi/gpushare-limits/4096", 7)
    assert json.loads(bundle_text(4096)) == {
        "process": {"env": ["NVIDIA_GPU_MEMORY_REQUEST=0", "NVIDIA_GPU_MEMORY_LIMIT=4096"]}
    }
