from __future__ import annotations

from clusters.images.behaviour import Behaviour, Behaviours
from clusters.kubelet.kubelet_cards import Cards
from clusters.kubelet.pods import Container, Kind
from clusters.kubelet.process_tree import ProcessTree
from clusters.kubelet.runtime import Runtime

UID = "3b1f2c4d-5e6f-4a7b-8c9d-0a1b2c3d4e5f"


def test_a_process_has_a_control_group_named_as_containerd_does(tmp_path) -> None:
    """The group names the pod's uid, and is gone with the process."""
    tree = ProcessTree(tmp_path / "proc")
    tree.add(7, UID)
    tree.add(8, UID)
    text = (tmp_path / "proc" / "7" / "cgroup").read_text()

    slice_name = "kubepods-burstable-pod3b1f2c4d_5e6f_4a7b_8c9d_0a1b2c3d4e5f.slice"
    assert text.startswith(f"0::/kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-")
    assert text.endswith(".scope\n")
    assert text != (tmp_path / "proc" / "8" / "cgroup").read_text()

    tree.remove(7)
    tree.remove(9)
    assert [path.name for path in (tmp_path / "proc").iterdir()] == ["8"]


async def test_process_exists_while_its_container_holds_the_card(tmp_path, state) -> None:
    """The process of the card's list is found in the tree until the container ends."""
    behaviours = Behaviours((Behaviour(images=("app",), holds_mib=100),))
    runtime = Runtime(behaviours, Cards(state), lambda: 0.0, ProcessTree(tmp_path / "proc"))
    container = Container("main", "app", Kind.APP, {}, (), ())
    run = runtime.start(UID, container, {"NVIDIA_VISIBLE_DEVICES": "0"})
    (process,) = state.cards()[0].processes

    assert (tmp_path / "proc" / str(process.pid) / "cgroup").exists()
    run.finish(0)
    assert list((tmp_path / "proc").iterdir()) == []
    assert state.cards()[0].processes == ()
