"""The parts of the C library's source that Python writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.calls import CALLS
from fake_nvml.core.answers import CHOSEN, PLACES, PLAIN, TEXTS, TOLD_MORE, Answer
from fake_nvml.core.c_source import MARKER, era_header, header, stubs
from fake_nvml.core.returns import Code, text_of
from fake_nvml.eras import ERAS, symbols
from fake_nvml.native.build import LIBRARY, compile_libraries, source_files
from fake_nvml.native.compiler import CompilerError, find_compiler
from fake_nvml.state import State

NEWEST = ERAS[-1]
TYPES = {"unsigned": "c_uint", "int": "c_int", "unsigned long long": "c_ulonglong"}
# A program that asks the library of its first argument what it reads: function, arguments, and the types of what is answered.
ASK = """
import ctypes, json, sys
library, handle = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
assert library.nvmlInit_v2() == library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
found = []
for function, arguments, types in json.load(sys.stdin):
    texts = ctypes.create_string_buffer(96)
    places = [texts if kind == "text" else kind and getattr(ctypes, kind)() for kind in types]
    outs = [None if place is None else ctypes.byref(place) for place in places]
    code = getattr(library, function)(handle, *arguments, *outs, *[96] * (types == ["text"]))
    values = [place.value for place in places if place is not None]
    values = [value.decode() if isinstance(value, bytes) else value for value in values]
    found.append([code, *values])
library.nvmlErrorString.restype = ctypes.c_char_p
errors = [library.nvmlErrorString(code).decode() for code in range(40)]
print(json.dumps([found, [name for name in sys.argv[2:] if hasattr(library, name)], errors]))
"""


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder for the library of the newest era, and the sources that it was compiled from."""
    return tmp_path_factory.mktemp("library"), {}


@pytest.fixture
def library(builds: tuple[Path, dict[str, str]]) -> Path:
    """That library, compiled once and as fast as a compiler can; every warning is an error."""
    folder, compiled = builds
    if (sources := source_files()) != compiled:
        try:
            compiler = find_compiler(os.environ)
        except CompilerError as error:
            pytest.skip(str(error))
        compile_libraries(compiler, sources, folder, folder, flags=["-O0", "-g0", "-Werror"], eras=[NEWEST])
        compiled |= sources
    return folder / str(NEWEST) / LIBRARY


Ask = Callable[..., list[list[Any]]]


@pytest.fixture
def ask(library: Path, state: State, state_path: Path) -> Ask:
    """The codes and answers of a few calls about the first card."""

    def asked(*calls: tuple[str, list[int], list[str | None]]) -> list[list[Any]]:
        return run(library, state_path, *calls)[0]

    return asked


def run(library: Path, state_path: Path, *calls: object, names: tuple[str, ...] = ()) -> list[Any]:
    """The answers to a program that makes these calls, those of these names that it finds, and the texts of codes."""
    command = [sys.executable, "-c", ASK, str(library), *names]
    environment = {**os.environ, "FAKENVML_STATE": str(state_path)}
    done = subprocess.run(
        command, env=environment, input=json.dumps(calls), capture_output=True, text=True, timeout=300, check=True
    )
    return list(json.loads(done.stdout))


def test_only_what_is_not_answered_gets_a_stub() -> None:
    """A function that is answered is written by hand."""
    text = stubs(CALLS)

    assert 'int nvmlDeviceGetVbiosVersion(void) { return fakenvml_not_supported("nvmlDeviceGetVbiosVersion"); }' in text
    assert "nvmlDeviceGetName(" not in text


def test_each_answered_function_is_one_of_a_real_library() -> None:
    """None of ours is invented."""
    assert CALLS.keys() <= frozenset().union(*map(symbols, ERAS))


def test_every_offset_is_asserted() -> None:
    """The compiler checks that C and Python have the same structs."""
    text = header()

    assert '_Static_assert(offsetof(Card, memory_total) == 232, "offset of Card.memory_total");' in text
    assert '_Static_assert(sizeof(StateFile) == 221696, "size of StateFile");' in text
    assert "    char driver[64];" in text
    assert "    Card cards[64];" in text
    assert "#define UNKNOWN64 0xffffffffffffffffULL" in text
    assert "#define UNKNOWN32 0xffffffffULL" in text
    assert "#define GPU_IS_LOST 15" in text


def test_an_era_has_its_driver_and_its_cuda() -> None:
    """A branch stands for one of its releases."""
    assert era_header(418) == '#define ERA 418\n#define RELEASE "418.87.00"\n#define CUDA 10010\n'


def test_the_library_exports_its_eras_functions_alone(library: Path, state: State, state_path: Path) -> None:
    """And the mark of a simulated library; a function that cards do not answer is not supported, and codes have their texts."""
    known = (*sorted(symbols(NEWEST)), MARKER)
    answers, found, texts = run(library, state_path, ("nvmlDeviceGetVbiosVersion", [], []), names=(*known, "ask_card"))

    assert (answers, found) == ([[Code.NOT_SUPPORTED]], list(known))
    assert texts == [text_of(code, NEWEST) for code in range(40)]


@pytest.mark.parametrize("utilization", [0, 7], ids=["idle", "at work"])
def test_each_row_of_the_tables_answers_its_fields(ask: Ask, state: State, utilization: int) -> None:
    """Numbers that are all different come back from the fields of the tables."""
    rows = [(function, [], answer) for function, answer in PLAIN.items()]
    for function, row in CHOSEN.items():
        rows += [(function, [number, *[0] * (function in TOLD_MORE)], answer) for number, (_, answer) in row.items()]
    fields = sorted({field for _, _, answer in rows for field in (*answer.fields, *answer.idle)})
    with state.mapped.writing() as content:
        card = content.cards[0]
        for number, field in enumerate(fields, start=100):
            setattr(card, field, number)
        card.refused = type(card.refused)()
        card.utilization = utilization

    def expected(answer: Answer) -> list[int]:
        return [100 + fields.index(field) for field in (answer.fields if utilization else answer.idle or answer.fields)]

    answers = ask(*((function, given, [TYPES[answer.type]] * len(answer.fields)) for function, given, answer in rows))
    assert answers == [[0, *expected(answer)] for _, _, answer in rows]


def test_a_text_that_is_empty_is_not_supported(ask: Ask, state: State) -> None:
    """The others are answered as they are in the record."""
    calls = [(function, [], ["text"]) for function in TEXTS]
    card = state.cards()[0]
    assert ask(*calls) == [[0, getattr(card, field)] for field in TEXTS.values()]
    with state.mapped.writing() as content:
        content.cards[0].serial = b""

    assert ask(("nvmlDeviceGetSerial", [], ["text"])) == [[Code.NOT_SUPPORTED, ""]]


def test_wrong_questions_are_refused(ask: Ask, state: State) -> None:
    """A number that stands for nothing, a place that is missing, and a key that the card refuses."""
    with state.mapped.writing() as content:
        content.cards[0].refused[PLACES["nvmlDeviceGetClockInfo sm"]] = Code.NO_PERMISSION

    assert ask(
        ("nvmlDeviceGetClockInfo", [77], ["c_uint"]),
        ("nvmlDeviceGetPowerUsage", [], [None]),
        ("nvmlDeviceGetEncoderUtilization", [], ["c_uint", None]),
        ("nvmlDeviceGetClockInfo", [1], ["c_uint"]),
    ) == [[Code.INVALID_ARGUMENT, 0], [Code.INVALID_ARGUMENT], [Code.INVALID_ARGUMENT, 0], [Code.NO_PERMISSION, 0]]
