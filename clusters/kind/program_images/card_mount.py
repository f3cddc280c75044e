"""How containers on a node come to its simulated cards, as NVIDIA's runtime would bring them to real ones.

Pods name only an amount of memory, and the device plugin answers with variables: neither knows of a state file. So the node's
container runtime puts its folder into every container: containerd begins each container from a specification, and here that is
its own one with one mount more. ``NVIDIA_VISIBLE_DEVICES`` decides which card a container then uses. A mount of the same
folder that a pod asks for itself takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from clusters.processes.commands import run

# On every node, control planes too: a folder on the host is mounted there, empty if there are no cards.
FOLDER: Final = "/var/lib/gpushare-simulated"
# Where a node's containerd finds the specification.
SPECIFICATION: Final = "/etc/containerd/gpushare-simulated.json"
# For ``containerdConfigPatches`` of a kind configuration.
CONTAINERD_PATCH: Final = f"""\
version = 3

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  base_runtime_spec = '{SPECIFICATION}'
"""


def specification(node_image: str, environment: Mapping[str, str]) -> str:
    """The text of that file for nodes of this image, made of what their containerd begins with. Raises ClusterError."""
    argv = ["docker", "run", "--rm", "--network=none", "--entrypoint=ctr", node_image, "oci", "spec"]
    return json.dumps(with_cards(json.loads(run(argv, environment))), indent=1)


def with_cards(default: Mapping[str, Any]) -> dict[str, Any]:
    """A container's specification with the cards' folder in it; the limits of its processes stay the node's."""
    mount = {"destination": FOLDER, "type": "bind", "source": FOLDER, "options": ["rbind", "rw"]}
    process = {name: value for name, value in default["process"].items() if name != "rlimits"}
    return {**default, "process": process, "mounts": [*default["mounts"], mount]}
