"""Promises of gpushare.setup.core.yaml_edit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpushare.setup.core.faults import Fault, SetupRefusedError
from gpushare.setup.core.yaml_edit import Entry, applied, load, removed

ARGUMENT = Entry(("arg",), "config=/x", is_item=True)
EXTRA = Entry(("spec", "extra", "config"), "/x")
VOLUME = Entry(("spec", "volumes"), {"name": "ours", "at": "/x"}, is_item=True)
DEEP = Entry(("spec", "scheduler", "extraArgs", "config"), "/x")
ITEM = Entry(("list", 0, "extra", "deep", "config"), "/x")
CASES = {
    "nothing is there": ("", ARGUMENT, "arg:\n- config=/x\n"),
    "comments alone": ("# mine", ARGUMENT, "# mine\narg:\n- config=/x\n"),
    "one comment and an end of line": ("# mine\n", ARGUMENT, "# mine\narg:\n- config=/x\n"),
    "a list with other things": ("arg:\n- a: 1\n", ARGUMENT, "arg:\n- a: 1\n- config=/x\n"),
    "a head and other keys": ("# mine\na: 1  # one\n", ARGUMENT, "# mine\narg:\n- config=/x\na: 1  # one\n"),
    "a list with comments": (
        "arg:\n    - 'v=2'   # two\n\n# b\nb: ~\n",
        ARGUMENT,
        "arg:\n    - 'v=2'   # two\n    - config=/x\n\n# b\nb: ~\n",
    ),
    "a list at the end, without a line's end": ("arg:\n- v=2", ARGUMENT, "arg:\n- v=2\n- config=/x"),
    "a list in brackets": ('arg: [ "v=2" ]\n', ARGUMENT, 'arg: [ "v=2" , "config=/x"]\n'),
    "an empty list": ("arg: []\n", ARGUMENT, 'arg: ["config=/x"]\n'),
    "a key without value": ("arg:\nb: 1\n", ARGUMENT, 'arg: ["config=/x"]\nb: 1\n'),
    "null": ("arg: null\n", ARGUMENT, 'arg: ["config=/x"]\n'),
    "another value of the flag": ("arg: ['config=/old', v=2]\n", ARGUMENT, "arg: [config=/x, v=2]\n"),
    "another value of the key": ("spec: {extra: {config: /old}}\n", EXTRA, 'spec: {extra: {config: "/x"}}\n'),
    "braces": ("spec: {a: 1}\n", EXTRA, 'spec: {"extra": {"config": "/x"}, a: 1}\n'),
    "empty braces": ("spec:\n  extra: {}\n", EXTRA, 'spec:\n  extra: {"config": "/x"}\n'),
    "a mapping": (
        "spec:\n    # deep\n    a: 1\n",
        EXTRA,
        "spec:\n    # deep\n    extra:\n      config: /x\n    a: 1\n",
    ),
    "items of keys": (
        "spec:\n  volumes:\n  # first\n  - name: a\n    path: /a\n",
        VOLUME,
        "spec:\n  volumes:\n  # first\n  - name: ours\n    at: /x\n  - name: a\n    path: /a\n",
    ),
}


@pytest.mark.parametrize(("text", "entry", "wanted"), CASES.values(), ids=list(CASES))
def test_an_entry_is_put_in_and_nothing_else_changes(text: str, entry: Entry, wanted: str) -> None:
    """A document gets its entry in its own form, and all other bytes stay."""
    assert applied(text, [entry], "f") == wanted
    assert applied(wanted, [entry], "f") == wanted


@pytest.mark.parametrize(
    "name", ["comments alone", "a head and other keys", "a list with comments", "a mapping", "items of keys"]
)
def test_what_was_put_in_is_taken_out_to_the_byte(name: str) -> None:
    """The removal of an entry that made a block gives the text from before, but for the line's end that was missing."""
    text, entry, _ = CASES[name]

    assert removed(applied(text, [entry], "f"), [entry], "f") == (text if text.endswith("\n") else f"{text}\n")
    assert removed(text, [entry], "f") == text


def test_what_a_removal_leaves_empty_goes_too() -> None:
    """A list, and mappings around it, that had nothing but the entry go with it."""
    assert removed("a: 1\nspec:\n  extra:\n    config: /x\n", [EXTRA], "f") == "a: 1\n"
    assert removed("a: 1\narg: [config=/x]\n", [ARGUMENT], "f") == "a: 1\n"
    assert (
        removed("list:\n- name: a\n  extra: x\n- b\n", [Entry(("list", 0, "extra"), "x")], "f")
        == "list:\n- name: a\n- b\n"
    )


def test_a_key_behind_a_dash_goes_and_the_dash_stays() -> None:
    """The first key of an item stands behind its dash, which the next key gets."""
    entry = Entry(("list", 0, "extra"), "x")

    assert removed("list:\n- extra: x\n  # second\n  name: a\n  b: 1\n", [entry], "f") == "list:\n- name: a\n  b: 1\n"


def test_an_empty_first_line_stays() -> None:
    """A document may begin with one."""
    assert removed("\narg:\n- config=/x\nb: 1\n", [ARGUMENT], "f") == "\nb: 1\n"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("arg: [a, b, ]\n", ARGUMENT),
        ("arg: {a: 1}\n", ARGUMENT),
        ("arg: text\n", Entry(("arg", "config"), "/x")),
        ("- a\n", ARGUMENT),
        ("arg: [config=/a, config=/b]\n", ARGUMENT),
        ("arg: [a]\narg: [b]\n", ARGUMENT),
        ("arg:\n- |\n  several\n\n  lines\nb: 1\n", ARGUMENT),
        ("spec:\n  volumes:\n  - name: ours\n    path: /other\n", VOLUME),
        ("spec: &same {a: 1}\nother: *same\n", EXTRA),
        ("spec:\n  scheduler: &same\n    extraArgs:\n      a: 1\n  other: *same\n", DEEP),
        ("list:\n- &same\n  extra:\n    deep:\n      a: 1\n- *same\n", ITEM),
        ("list:\n- extra: &same\n    deep:\n      a: 1\n  other: *same\n", ITEM),
        ("spec:\n  extra:\n    config: {a: 1}\n", EXTRA),
        ("arg:\n  a: 1\n", ARGUMENT),
    ],
)
def test_a_form_that_is_not_edited_is_refused(text: str, entry: Entry) -> None:
    """A text in which an edit would change more than its entry is refused, with what to do by hand."""
    with pytest.raises(SetupRefusedError) as refused:
        applied(text, [entry], "f")

    place = ".".join(map(str, entry.at))
    assert refused.value.fault == Fault(
        f"f: {place} is written in a form that is not edited here",
        f"add to {place} by hand: {json.dumps(entry.value)}",
    )


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("arg: [v=2, config=/x]\n", ARGUMENT),
        ("{spec: {extra: {config: /x}}}\n", EXTRA),
        ("list:\n- extra: x\n- b\n", Entry(("list", 0, "extra"), "x")),
    ],
)
def test_a_removal_that_would_take_more_is_refused(text: str, entry: Entry) -> None:
    """An entry in braces or brackets, or the whole item of a list, is left to a person."""
    with pytest.raises(SetupRefusedError, match=r"^f: .* is written in a form .*\n  fix: remove from .* by hand"):
        removed(text, [entry], "f")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [1\n", "f, line 2: no YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "f, line 2: no YAML: but found another document"),
        (
            "a: \x07\n",
            'f: no YAML: unacceptable character #x0007: special characters are not allowed in "<unicode string>", position 3',
        ),
    ],
)
@pytest.mark.parametrize("read", [load, lambda text, path: applied(text, [ARGUMENT], path)])
def test_what_is_no_document_is_refused(text: str, what: str, read: Callable[[str, str], Any]) -> None:
    """A file that is no YAML document is refused by its name and the line."""
    with pytest.raises(SetupRefusedError) as refused:
        read(text, "f")

    assert refused.value.fault == Fault(what, "fix the file, or restore it from a copy")


KEYS = st.sampled_from(["spec", "extra", "arg", "a", "b"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["v=2", "x: y", "# no", "", "config=/old", "two\nlines"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from([ARGUMENT, EXTRA]), st.sampled_from([None, False]))
def test_any_document_is_edited_right_or_refused(document: object, entry: Entry, flow: bool | None) -> None:
    """An edit of any document either changes its entry alone and is undone by the removal, or is refused."""
    text = yaml.safe_dump(document, default_flow_style=flow)
    try:
        new = applied(text, [entry], "f")
        back = removed(new, [entry], "f")
    except SetupRefusedError:
        return

    assert yaml.safe_load(new) is not None
    lines = new.splitlines()
    kept = [line for line in text.splitlines() if line in lines]
    assert len(kept) >= len(text.splitlines()) - 2, "at most the line of a flow list or of an empty one is another"
    assert removed(back, [entry], "f") == back
