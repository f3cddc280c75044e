"""The specification that containers on a node with simulated cards begin with."""

from __future__ import annotations

import tomllib

from clusters.kind.program_images.card_mount import CONTAINERD_PATCH, FOLDER, SPECIFICATION, with_cards

DEFAULT = {
    "ociVersion": "1.2.1",
    "process": {"cwd": "/", "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]},
    "mounts": [{"destination": "/proc"}],
}


def test_the_cards_folder_is_one_mount_more() -> None:
    """All else is containerd's, except for limits lower than the node's."""
    made = with_cards(DEFAULT)

    assert [mount["destination"] for mount in made["mounts"]] == ["/proc", FOLDER]
    assert made["mounts"][1]["options"] == ["rbind", "rw"]
    assert made["process"] == {"cwd": "/"}
    assert len(DEFAULT["mounts"]) == 1


def test_the_patch_names_the_file() -> None:
    """Where containerd of version 2 looks for it."""
    runtimes = tomllib.loads(CONTAINERD_PATCH)["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]

    assert runtimes["runc"]["base_runtime_spec"] == SPECIFICATION
