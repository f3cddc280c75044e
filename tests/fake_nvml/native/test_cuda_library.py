"""The simulated libcuda.so.1: which cards it shows, whose memory it takes, and what it answers to calls that make no sense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.native.sanitized import sanitized_library

# A program on the library: ``call`` answers a return code, and what is printed last is the answer of the test.
HEAD = """
import ctypes, json, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
library = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(library, name)(*arguments)
def devices():
    count, device, uuids = c_int(), c_int(), []
    call("cuDeviceGetCount", byref(count))
    for ordinal in range(count.value):
        uuid = (ctypes.c_ubyte * 16)()
        assert call("cuDeviceGet", byref(device), ordinal) == call("cuDeviceGetUuid_v2", uuid, device) == 0
        uuids.append(bytes(uuid).hex())
    return uuids
def context():
    assert call("cuInit", 0) == call("cuCtxCreate_v2", byref(made := c_void_p()), 0, 0) == 0
    return made
def take(mib):
    return call("cuMemAlloc_v2", byref(address := c_uint64()), c_size_t(mib << 20)), address
def show(answer):
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def cards(tmp_path: Path) -> Iterator[State]:
    """A node with two T4."""
    with State.create(tmp_path / "state", Box.load("t4x2", seed="node", driver="535")) as state:
        yield state


@pytest.fixture
def variables(cards: State, built: Path) -> dict[str, str]:
    return {"FAKENVML_STATE": str(cards.path), "LD_LIBRARY_PATH": str(built / "535")}


def answer(variables: dict[str, str], code: str) -> Any:
    """The last line that the program prints, as data."""
    argv = [sys.executable, "-I", "-c", HEAD + code]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def digits(cards: State, *indices: int) -> list[str]:
    return [cards.cards()[index].uuid.removeprefix("GPU-").replace("-", "") for index in indices]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, [0, 1]),
        ({"NVIDIA_VISIBLE_DEVICES": "1"}, [1]),
        ({"NVIDIA_VISIBLE_DEVICES": "1", "FAKENVML_VISIBLE": "0"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, [1, 0]),
        ({"CUDA_VISIBLE_DEVICES": "1,7,0"}, [1]),
        ({"FAKENVML_VISIBLE": "1", "CUDA_VISIBLE_DEVICES": "0"}, [1]),
        ({"FAKENVML_VISIBLE": "1", "CUDA_VISIBLE_DEVICES": "1"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "+1st, 0"}, [1, 0]),
        ({"CUDA_VISIBLE_DEVICES": "1,0,1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,,0"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, []),
    ],
    ids=str,
)
def test_the_variables_decide_which_cards_are_shown(
    cards: State, variables: dict[str, str], given: dict[str, str], shown: list[int]
) -> None:
    """The container's variable chooses, CUDA's chooses and orders among those; without a card cuInit answers NO_DEVICE."""
    code, uuids = answer({**variables, **given}, 'show([call("cuInit", 0), devices()])')

    assert (code, uuids) == (0 if shown else 100, digits(cards, *shown))


def test_an_allocation_stays_within_the_limit_of_its_cgroup(tmp_path: Path, built: Path) -> None:
    """The context counts, as do the cgroup's other processes; managed memory does not, though the card has it."""
    container, box = tmp_path / "container", tmp_path / "box.yaml"
    container.mkdir()
    box.write_text('driver: "615"\ncards: [{model: t4, count: 2}]\ncontext_mib: 518')
    code = """
import subprocess
def memory():
    call("cuMemGetInfo_v2", byref(left := c_size_t()), byref(total := c_size_t()))
    return left.value >> 20, total.value >> 20
def shown():
    page = subprocess.check_output([sys.executable, "-m", "fake_nvml.main", "show", "-o", "json"])
    return json.loads(page)["memory_limits"][0]["used_bytes"] >> 20, json.loads(page)["cards"][0]["memory"]["used_mib"]
made = context()
seen = [memory(), take(400)[0], take(7)[0], memory()]
seen += [call("cuMemAllocManaged", byref(managed := c_uint64()), c_size_t(300 << 20), 1), memory(), shown()]
seen += [call("cuMemFree_v2", managed), shown(), call("cuCtxDestroy_v2", made), shown()]
show(seen)
"""
    variables = {"LD_LIBRARY_PATH": str(built / "615"), "FAKENVML_CGROUP": str(container)}
    with State.create(tmp_path / "state", Box.load(str(box), seed="node")) as cards:
        uuid = cards.cards()[0].uuid
        cards.set_limit(uuid, container, 0, 2**30)
        cards.add_process(uuid, 99, 100, "another", cgroup=container)
        cards.add_process(uuid, 98, 200, "a stranger")
        seen = answer({**variables, "FAKENVML_STATE": str(cards.path)}, code)
        cards.set_limit(uuid, container, 0, 600 * 2**20)
        refused = 'call("cuInit", 0); show(call("cuCtxCreate_v2", byref(c_void_p()), 0, 0))'
        assert answer({**variables, "FAKENVML_STATE": str(cards.path)}, refused) == 2

    assert seen[:4] == [[406, 1024], 0, 2, [6, 1024]]
    assert seen[4:] == [0, [6, 1024], [1018, 1518], 0, [1018, 1218], 0, [100, 300]]


def test_calls_that_make_no_sense_are_refused_under_sanitizers(cards: State) -> None:
    """Each function takes null pointers before cuInit, after it and with a context, and the sanitizers find no fault."""
    names = [
        "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetUuid_v2",
        "cuDeviceTotalMem_v2", "cuCtxCreate_v2", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemAllocManaged", "cuMemFree_v2",
        "cuMemsetD8_v2", "cuMemcpyDtoH_v2", "cuGetErrorName", "cuGetErrorString",
    ]  # fmt: skip
    code = f"""
null, codes = [c_void_p(None)] * 4, []
for begin in (lambda: None, lambda: call("cuInit", 0), context):
    begin()
    codes += [call(name, *null) for name in {names}]
take(5), take(5)
codes += [call("cuInit", 1), call("cuDeviceGet", byref(c_int()), 2), call("cuCtxDestroy_v2", None)]
show(codes + [call("cuCtxDestroy_v2", c_void_p(1)), call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(5))])
"""
    variables = {"FAKENVML_STATE": str(cards.path), "PATH": os.environ["PATH"], **sanitized_library()}
    codes = answer(variables, code)

    assert 0 not in codes[:-2]
    assert codes[-5:] == [1, 101, 201, 0, 201]
    assert cards.cards()[0].used_mib == 0
