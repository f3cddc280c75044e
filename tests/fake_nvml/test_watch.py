"""Watching cards."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from fake_nvml.watch import watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with State.create(state_path, Box.load("t4x1", seed="node-1")) as created:
        yield created


def pages(state: State, out: io.StringIO, sleeps: int, act: Callable[[int], None] = lambda _: None) -> str:
    """The output in ``sleeps`` sleeps, each of which takes its time and then does ``act``."""
    now, number = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now, number
        now, number = now + seconds, number + 1
        act(number)
        if number == sleeps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(state, "json", out, monotonic=lambda: now, sleep=sleep)
    return out.getvalue()


def test_a_change_is_printed_at_the_next_look(state: State) -> None:
    """The page before it is printed, too."""
    uuid = state.cards()[0].uuid

    def change(number: int) -> None:
        if number == 2:
            state.set_value(uuid, "temperature", "80")

    first, second = pages(state, io.StringIO(), 4, change).split("}\n{")

    assert json.loads(first + "}")["cards"][0]["temperature"] == 33
    assert json.loads("{" + second)["cards"][0]["temperature"] == 80


def test_without_a_change_it_is_printed_each_second(state: State) -> None:
    """Looks in between print nothing."""
    assert pages(state, io.StringIO(), 25).count('"simulated": true') == 3


def test_a_terminal_shows_the_last_page_only(state: State) -> None:
    """Each page clears the screen."""
    assert pages(state, Terminal(), 12).count("\x1b[H\x1b[J{") == 2
