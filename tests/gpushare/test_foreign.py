"""Text from outside: of any depth, size and width it becomes a value or one kind of error."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushare
from gpushare.bounds import YAML_CHARACTERS
from gpushare.foreign import (
    Decoder,
    UnreadableError,
    compose_yaml,
    decode_each_yaml,
    decode_json,
    decode_yaml,
    version_number,
    without_depths,
)
from gpushare.manifests import Pod
from tests.counted import steps_of

LEVELS = 20_000
# A value of many levels, as JSON has it in its forms: as text before and after what is inside.
DEEP = {
    "maps": ('{"a":', "}"),
    "lists": ("[", "]"),
    "both": ('{"a":[', "]}"),
    "spaced": ('{ "a" : [\n', "\n] }\n"),
    "after a flat value": ('{"a":{},"b":', "}"),
    "before a flat value": ('{"b":', ',"a":[]}'),
    "with brackets in text": ('{"a":"]}{[\\"]}","b":', "}"),
}


@pytest.mark.parametrize("form", DEEP)
def test_an_object_with_a_deep_field_is_read(form: str) -> None:
    """All but the deepest values of an object are read, behind the deep field too."""
    before, after = DEEP[form]
    deep = before * LEVELS + "1" + after * LEVELS
    text = f'{{"metadata":{{"managedFields":[{deep},{deep}],"name":"p"}},"spec":{{"nodeName":"n"}}}}'

    pod = Decoder(Pod).decode(text)

    assert (pod.metadata.name, pod.spec.node_name) == ("p", "n")


def test_the_items_of_a_page_are_read_beside_a_deep_one() -> None:
    """A list that is decoded only down to its items is followed by recursion all the same."""
    text = f'[{{"a":{"[" * LEVELS + "]" * LEVELS}}},{{"b":2}}]'

    page = Decoder(list[msgspec.Raw]).decode(text)

    assert [list(decode_json(bytes(item))) for item in page] == [["a"], ["b"]]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_only_what_is_too_deep_is_cut(value: Any, indent: int | None) -> None:
    """JSON of few levels stays as it is."""
    text = json.dumps(value, indent=indent).encode()

    assert without_depths(text) == text


@given(JSON_VALUES, st.integers(60, 70))
def test_the_cut_is_at_a_fixed_level(value: Any, levels: int) -> None:
    """The rest is JSON with the same values down to that level, and at most one more."""
    for _ in range(levels):
        value = ["x", value, {"y": 1}]

    assert _shown(decode_json(without_depths(json.dumps(value).encode())), 64) == _shown(value, 64)


def _shown(value: Any, levels: int) -> Any:
    if not levels:
        return None
    if isinstance(value, list):
        return [_shown(one, levels - 1) for one in value]
    return {key: _shown(one, levels - 1) for key, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("part", ["[", "]", '"', "\\", '{"a":', "[]", "[],", "[[[]]],", '"a",', "}{", '{"a":1,"b":['])
def test_the_work_of_cutting_grows_as_the_text_does(part: str) -> None:
    """Twice the text is twice the work, whatever it is."""
    half, whole = (part.encode() * count for count in (5_000, 10_000))

    assert steps_of(lambda: without_depths(whole)) <= 2.2 * steps_of(lambda: without_depths(half)) + 100


def test_a_deep_text_beyond_the_bound_is_refused() -> None:
    """A stranger's text may be cut only if it is short, as that takes longer."""
    with pytest.raises(UnreadableError, match="nested too deeply"):
        Decoder(Pod, 1000).decode(b'{"a":' * LEVELS + b"1" + b"}" * LEVELS)


UNREADABLE_JSON: dict[str, bytes | str] = {
    "nothing": b"",
    "half": b'{"metadata":',
    "deep and half": b'{"a":' * LEVELS,
    "deep and closed too often": b"[" * LEVELS + b"]" * (LEVELS + 1),
    "no text": b'{"metadata":{"name":"\xff"}}',
    "half a character": '{"metadata":{"name":"\ud800"}}',
    "another type": b'{"metadata":{"name":[[]]}}',
    "a long number": b'{"spec":{"priority":%b}}' % (b"9" * 10_000),
}


@pytest.mark.parametrize("name", UNREADABLE_JSON)
def test_json_that_cannot_be_read_is_one_kind_of_error(name: str) -> None:
    """Its text is short."""
    with pytest.raises(UnreadableError) as caught:
        Decoder(Pod).decode(UNREADABLE_JSON[name])

    assert len(str(caught.value)) <= 300


def _laughs(form: str) -> str:
    lines = [f"a{at}: &a{at} {form % ', '.join([f'*a{at - 1}'] * 9)}" for at in range(1, 12)]
    return "\n".join(["a0: &a0 {x: lol}", *lines])


UNREADABLE_YAML: dict[str, bytes | str] = {
    "lists of many levels": "[" * 1000,
    "maps of many levels": "{a: " * LEVELS,
    "blocks of many levels": "\n".join(" " * at + "- a:" for at in range(1000)),
    "aliases of aliases": _laughs("[%s]"),
    "merged aliases of aliases": _laughs("{<<: [%s]}"),
    "an alias inside what it names": "a: &a [*a]",
    "an unknown alias": "a: *b",
    "a long number": "9" * 10_000,
    "no day": "!!timestamp 2026-99-99",
    "a list as a key": "{[a]: 1}",
    "a foreign tag": "!!python/object:os.system 1",
    "a broken tag": "!!binary [",
    "an odd number": "0b_",
    "a control character": "a: \x00",
    "no text": b"\xff\xfe\xfd",
    "two documents": "a\n---\nb",
    "too long": "a" * (YAML_CHARACTERS.most + 1),
}


@pytest.mark.parametrize("name", UNREADABLE_YAML)
def test_yaml_that_cannot_be_read_is_one_kind_of_error(name: str) -> None:
    """It takes neither a crash nor the memory of what its aliases repeat."""
    with pytest.raises(UnreadableError) as caught:
        decode_yaml(UNREADABLE_YAML[name])

    assert len(str(caught.value)) <= 300


def test_yaml_as_people_write_it_is_read() -> None:
    """Aliases, merged maps and several documents are values like others; of a mistake the place is known."""
    text = "base: &base {a: 1, b: [x]}\nother: {<<: *base, b: *base}\n"

    assert decode_yaml(text) == {"base": {"a": 1, "b": ["x"]}, "other": {"a": 1, "b": {"a": 1, "b": ["x"]}}}
    assert decode_yaml("") is None
    assert decode_each_yaml("a\n---\nb: 1\n---\n") == ["a", {"b": 1}, None]
    assert compose_yaml("a: 1").value[0][1].start_mark.index == 3
    with pytest.raises(UnreadableError) as caught:
        decode_yaml("a: 1\nb: ]")
    assert (caught.value.line, caught.value.place) == (2, " at line 2, column 4")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "²", "٣", "9" * 5000, "1_0"])
def test_a_version_that_is_no_number_is_zero(text: str) -> None:
    """So it has no place in an order."""
    assert version_number(text) == 0
    assert version_number("0123") == 123


# The parsers that raise errors of their own.
PARSERS = re.compile(r"msgspec\.json\.(decode|Decoder)|json\.loads?|yaml\.\w*(load|compose|parse|scan)\w*")


def test_no_other_module_parses_text_from_outside() -> None:
    """A parser that is called elsewhere would raise its own errors there."""
    root = Path(gpushare.__file__).parent
    calls = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and PARSERS.fullmatch(ast.unparse(node)) and path.name != "foreign.py"
    ]
    assert not calls
