"""When the simulated kubelet frees the devices of pods that are gone."""

from __future__ import annotations

import random

from clusters.images.behaviour import Behaviours
from clusters.kubelet.device_manager import DeviceManager
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.kubelet_devices import Allocation
from clusters.kubelet.kubelet_pods import NodePods
from clusters.kubelet.pod_worker import Surroundings
from clusters.kubelet.runtime import Runtime
from clusters.kubelet.timings import Timings


def test_before_all_pods_are_known_nothing_is_freed(folder) -> None:
    """A question right after the start must not take devices from pods that were not listed yet."""
    devices = DeviceManager(folder, random.Random(1), Timings(), lambda: None)
    devices.book.store(Allocation("uid-p", "main", "example.com/slice", ("a",)))
    runtime = Runtime(Behaviours(), Cards(), lambda: 0.0)
    around = Surroundings(runtime, devices, Timings(), lambda: 0.0, "127.0.0.1", lambda: "10.0.0.1")
    pods = NodePods(None, "n1", around, dict)  # type: ignore[arg-type]  # no API server is asked

    assert pods.device_book().in_use("example.com/slice") == {"a"}
