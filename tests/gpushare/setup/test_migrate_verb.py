"""The verb migrate of gpushare-setup on a cluster."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from gpushare.setup import main, setup_arguments
from tests.gpushare.kube.scripted_api import Answer, Call, ScriptedApi, listen
from tests.gpushare.setup.test_cluster_objects import write_kubeconfig

OURS = {"metadata": {"labels": {"app.kubernetes.io/part-of": "gpushare"}}}
NODE = {
    "metadata": {"name": "n", "labels": {"gpushare": "true"}},
    "status": {"capacity": {"aliyun.com/gpu-mem": "28", "aliyun.com/gpu-count": "2"}},
}
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "d", "uid": "p", "annotations": {"ALIYUN_COM_GPU_MEM_IDX": "1"}},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}]},
    "status": {"phase": "Running"},
}
LOST = POD | {"metadata": POD["metadata"] | {"annotations": {"ALIYUN_COM_GPU_MEM_IDX": "2"}}}


async def migrate(folder: Path, objects: dict[str, Any], *flags: str, named: bool = True) -> tuple[int, list[str]]:
    """Exit code and lines of the verb; the cluster is named by a flag, or by KUBECONFIG."""

    def respond(call: Call) -> Answer:
        assert call.method == "GET", "the verb only reads"
        kind = call.path.split("/")[6 if call.path.startswith("/apis") else 3]
        if kind in ("nodes", "pods"):
            return Answer({"kind": "List", "metadata": {}, "items": objects.get(kind, [])})
        found = objects.get(kind)
        return Answer({"kind": "Status", "message": "not found", "code": 404}, 404) if found is None else Answer(found)

    async with listen(ScriptedApi(respond)) as url:
        kubeconfig = write_kubeconfig(folder, url)
        out = io.StringIO()
        words = ["migrate", *([f"--kubeconfig={kubeconfig}"] if named else []), *flags]
        code = await asyncio.to_thread(main.run, setup_arguments.parse(words, {}), out)
    return code, out.getvalue().splitlines()


@pytest.mark.parametrize("named", [True, False])
async def test_the_next_steps_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    """The picture, then numbered commands; the cluster is that of the flag, or of KUBECONFIG."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    seen = {"nodes": [NODE], "pods": [POD], "deployments": OURS, "daemonsets": OURS}

    code, lines = await migrate(tmp_path, seen, named=named)
    assert code == 0
    assert lines[0] == "extender: gpushare's"
    assert lines[2] == "  d/p, card 1: 3, by the original's extender, started"
    assert [line[:3] for line in lines[3:]] == ["1. ", "2. "]


async def test_a_fault_stops_it(tmp_path: Path) -> None:
    """Exit code 3, the fault in one line and the way out in the next, and no step."""
    code, lines = await migrate(tmp_path, {"nodes": [NODE], "pods": [LOST]})

    assert (code, lines[3:]) == (
        3,
        [
            "pod d/p names card 2, and node n has the cards 0, 1",
            "  fix: delete the pod, and its owner makes another",
        ],
    )


@pytest.mark.parametrize(("flags", "side"), [((), "gpushare"), (("--back",), "the original")])
async def test_its_end_is_printed(tmp_path: Path, flags: tuple[str, ...], side: str) -> None:
    """Nothing is left to do."""
    seen = {"nodes": [NODE] if flags else []}

    assert (await migrate(tmp_path, seen, *flags))[1][-1] == f"good: all nodes have {side}'s plugin"


def test_a_unit_that_the_original_lacks_is_refused() -> None:
    """--memory-unit takes GiB and MiB."""
    with pytest.raises(SystemExit):
        setup_arguments.parse(["migrate", "--memory-unit=256MiB"], {})
    assert setup_arguments.parse(["migrate", "--memory-unit=MiB", "--back"], {}).course.command == (
        "gpushare-setup migrate --back --memory-unit=MiB"
    )
