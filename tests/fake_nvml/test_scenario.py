"""Scenarios: timed faults as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_nvml import scenario
from fake_nvml.fake_nvml_errors import ScenarioError
from fake_nvml.state import State

BOX = "t4x2"

EXAMPLES = sorted((Path(scenario.__file__).parent / "scenarios").glob("*.yaml"))


class Clock:
    """Time that passes only during sleeps; remembers how long they were."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def written(tmp_path: Path, text: str) -> Path:
    """A scenario in a file."""
    path = tmp_path / "my.yaml"
    path.write_text(text)
    return path


def play(state: State, path: Path, clock: Clock | None = None) -> list[str]:
    """Check and run a scenario; the lines that it prints."""
    said: list[str] = []
    steps, clock = scenario.load(path), clock or Clock()
    scenario.check(state, path, steps)
    scenario.run(state, path, steps, said.append, monotonic=clock.monotonic, sleep=clock.sleep)
    return said


def test_steps_happen_in_order_at_their_times(state: State, tmp_path: Path) -> None:
    """Each step is printed with its time."""
    path = written(
        tmp_path,
        "about: all units\nsteps:\n"
        "  - {after: 2s, do: process add 0 4711 1253 --name 'a b'}\n"
        "  - {after: 500ms, do: xid 1 48}\n"
        "  - {do: lose 1}\n"
        "  - {after: 1m, do: reboot}\n"
        "  - {after: 1.5, do: set 0 temperature 80}\n",
    )

    assert play(state, path) == [
        "   2.000 s  card 0: process 4711 uses 1253 MiB",
        "   2.500 s  card 1: Xid 48 reported",
        "   2.500 s  card 1: lost",
        "  62.500 s  rebooted",
        "  64.000 s  card 0: temperature is 80",
    ]
    assert (state.cards()[0].temperature, state.read().header.next_event) == (80, 1)


def test_a_late_step_does_not_delay_the_next(state: State, tmp_path: Path) -> None:
    """Times count from the beginning: what a step took is not waited for again."""
    clock = Clock()
    path = written(tmp_path, "- {after: 1s, do: xid 0 31}\n- {after: 2s, do: xid 0 43}\n")

    def say(_: str) -> None:
        clock.now += 0.5

    scenario.run(state, path, scenario.load(path), say, monotonic=clock.monotonic, sleep=clock.sleep)

    assert clock.slept == [1.0, 1.5]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(state: State, path: Path) -> None:
    """Every step of each is played."""
    assert len(play(state, path)) == len(scenario.load(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{steps: [], colour: red}", "has the keys steps"),
        ("- xid 0 31", "step 1: 'xid 0 31' is no step"),
        ("- {do: xid 0 31}\n- {after: soon, do: xid 0 31}", "step 2: after: 'soon' is no time"),
        ("- {do: sell 0}", "step 1: do: 'sell 0' is none of the commands.*reboot"),
        ("- {do: xid 0}", "the following arguments are required: XID; usage: fake-nvml xid"),
        ("- {do: xid 0 31 --state /x}", "has --state"),
        ("- {do: faults}", "changes nothing"),
        ('- {do: "xid 0 \'31"}', "No closing quotation"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_step(tmp_path: Path, text: str, says: str) -> None:
    """The file, the step and the fault are named."""
    path = written(tmp_path, text)

    with pytest.raises(ScenarioError, match=rf"(?s)my\.yaml.*{says}"):
        scenario.load(path)


def test_what_cannot_work_is_refused_before_the_first_step(state: State, tmp_path: Path) -> None:
    """A scenario is refused even if only an earlier step makes one impossible; the cards stay as they are.

    A step that others made impossible meanwhile is named while the scenario runs.
    """
    before, clock = state.cards(), Clock()
    path = written(tmp_path, "- {after: 1s, do: process add 0 1 15000}\n- {do: process add 0 2 15000}")

    with pytest.raises(ScenarioError, match="step 2: card .* has 79 MiB free"):
        play(state, path, clock)

    assert (state.cards(), clock.slept) == (before, [])
    path = written(tmp_path, "- {after: 1s, do: lose 1}\n")
    steps = scenario.load(path)
    scenario.check(state, path, steps)
    state.remove_card(before[1].uuid)
    with pytest.raises(ScenarioError, match="step 1: no card '1'"):
        scenario.run(state, path, steps, print, monotonic=clock.monotonic, sleep=clock.sleep)
