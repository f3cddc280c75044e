"""The part of the C library's source that Python knows better: records, numbers, texts, stubs, symbols of an era. Pure."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

from fake_nvml.core import layout, returns
from fake_nvml.core.answers import CHOSEN, FUNCTIONS, KEYS, PLAIN, RECOVERY_ACTION, TEXTS, TOLD_MORE, Answer
from fake_nvml.core.drivers import complete, cuda_version
from fake_nvml.eras import ERAS, VERSION_BEFORE_INIT_SINCE, symbols

# The symbol by which a program sees that the loaded library is a simulated one.
MARKER: Final = "fakenvml_version"
MARKER_TEXT: Final = f"simulated cards, state file version {layout.VERSION}"

_RECORDS = (layout.Header, layout.Card, layout.Process, layout.Event, layout.Fault, layout.Limit, layout.StateFile)
_TYPES = {
    ctypes.c_uint16: "uint16_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_int32: "int32_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_char: "char",
}


def header() -> str:
    """``state_file.h``: the layout as C sees it, each offset and size asserted, and NVML's numbers and texts."""
    parts = ["#pragma once", "#include <stddef.h>", "#include <stdint.h>", ""]
    numbers = [*_numbers(layout), *returns.CODES.items(), *_numbers(returns)]
    parts += [f"#define {name} {_number(value)}" for name, value in numbers]
    parts += [
        f'#define RECOVERY_ACTION_KEY "{RECOVERY_ACTION}"',
        f"#define VERSION_BEFORE_INIT_SINCE {VERSION_BEFORE_INIT_SINCE}",
        f'#define FAKENVML_MAGIC "{layout.MAGIC.decode()}"',
        f'#define FAKENVML_MARKER "{MARKER_TEXT}"',
        f'#define FAKENVML_UNKNOWN_TEXT "{returns.UNKNOWN_TEXT}"',
        *_tables(),
    ]
    for record in _RECORDS:
        parts += ["", *_record(record)]
    return "\n".join(parts) + "\n"


def stubs() -> str:
    """``stubs.c``: a function that answers NOT_SUPPORTED for each of a real library that the library does not answer."""
    names = sorted(frozenset().union(*map(symbols, ERAS)) - FUNCTIONS)
    lines = [f'int {name}(void);\nint {name}(void) {{ return fakenvml_not_supported("{name}"); }}' for name in names]
    return "\n".join(["int fakenvml_not_supported(const char *function);", *lines]) + "\n"


def answers() -> str:
    """``answers.c``: the functions that answer straight from a card's record, one for each row of the tables."""
    lines = ['#include "session.h"', ""]
    for function, answer in PLAIN.items():
        lines += _function(function, "", answer.type, len(answer.fields), _write(answer))
    for function, row in CHOSEN.items():
        told = "unsigned choice, " + "unsigned more, " * (function in TOLD_MORE)
        cases = [line for number, (word, answer) in row.items() for line in _case(function, number, word, answer)]
        body = ["switch (choice) {", *cases, "default: return INVALID_ARGUMENT;", "}"]
        first = next(answer for _, answer in row.values())
        lines += _function(function, told, first.type, 1, body)
    for function, field in TEXTS.items():
        lines += [
            f"int {function}(void *handle, char *buffer, unsigned size)",
            "{",
            "    ASK_CARD(q, handle, buffer);",
            f"    if (q.card.{field}[0] == 0)",
            "        return NOT_SUPPORTED;",
            f"    return write_text(buffer, size, q.card.{field}, sizeof q.card.{field});",
            "}",
            "",
        ]
    return "\n".join(lines)


def _function(name: str, told: str, kind: str, places: int, body: list[str]) -> list[str]:
    """A function that writes to one place, or to two."""
    outs = ", ".join(f"{kind} *{place}" for place in ("first", "second")[:places])
    lines = [f"int {name}(void *handle, {told}{outs})", "{", "    ASK_CARD(q, handle, first);"]
    lines += ["    if (second == NULL)", "        return INVALID_ARGUMENT;"] * (places > 1)
    return [*lines, *(["    (void)more;"] * ("more" in told)), *(f"    {line}" for line in body), "}", ""]


def _case(function: str, number: int, word: str, answer: Answer) -> Iterator[str]:
    yield f"case {number}:"
    if word:
        yield f'    for (int code = refusal(q.card.refused, "{function} {word}"); code != SUCCESS;)'
        yield "        return code;"
    yield from (f"    {line}" for line in _write(answer))


def _write(answer: Answer) -> list[str]:
    lines = []
    for place, field in zip(("first", "second"), answer.fields, strict=False):
        value = f"q.card.{field}"
        if answer.idle:
            value = f"q.card.utilization > 0 ? {value} : q.card.{answer.idle[0]}"
        lines.append(f"*{place} = ({answer.type})({value});")
    return [*lines, "return SUCCESS;"]


def version_script(branch: int) -> str:
    """The linker's list of what a library of a driver branch exports; all else stays inside."""
    return "{ global: " + " ".join(f"{name};" for name in (*sorted(symbols(branch)), MARKER)) + " local: *; };\n"


def era_header(branch: int) -> str:
    """Constants of ``era.c`` for the library of a driver branch; they do not depend on the state file."""
    driver = complete(str(branch))
    return f'#define ERA {branch}\n#define RELEASE "{driver}"\n#define CUDA {cuda_version(driver)}\n'


def _numbers(module: Any) -> Iterator[tuple[str, int]]:
    return ((name, value) for name, value in vars(module).items() if name.isupper() and type(value) is int)


def _number(value: int) -> str:
    return str(value) if value < 2**31 else f"{value:#x}ULL"


def _tables() -> Iterator[str]:
    yield "static const struct { int code, since; const char *text; } fakenvml_texts[] __attribute__((unused)) = {"
    known = (code for code in returns.Code if code.text != returns.UNKNOWN_TEXT)
    yield from (f'    {{{code}, {code.since}, "{code.text}"}},' for code in known)
    yield "};"
    yield "static const char *const fakenvml_keys[] __attribute__((unused)) = {"
    yield from (f'    "{key}",' for key in KEYS)
    yield "};"


def _record(record: Any) -> Iterator[str]:
    name = record.__name__
    yield "typedef struct {"
    yield from (f"    {_declaration(field, kind)};" for field, kind in record._fields_)
    yield f"}} {name};"
    yield f'_Static_assert(sizeof({name}) == {ctypes.sizeof(record)}, "size of {name}");'
    for field, _ in record._fields_:
        offset = getattr(record, field).offset
        yield f'_Static_assert(offsetof({name}, {field}) == {offset}, "offset of {name}.{field}");'


def _declaration(field: str, kind: Any) -> str:
    if issubclass(kind, ctypes.Array):
        return f"{_declaration(field, kind._type_)}[{kind._length_}]"
    return f"{_TYPES.get(kind, kind.__name__)} {field}"
