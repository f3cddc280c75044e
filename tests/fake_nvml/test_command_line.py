"""Arguments: what they become, and what a wrong one hears."""

from __future__ import annotations

import pytest

from fake_nvml.changes import CHANGES
from fake_nvml.command_line import UsageError, parse, parse_words

WHOLE = {
    "set": "set 0 temperature 80",
    "process": "process add 0 4711 1253",
    "xid": "xid 0 79 --lose",
    "lose": "lose 0",
    "repair": "repair GPU-x",
    "add": "add --model t4 --uuid GPU-x --numa 1",
    "remove": "remove 0",
    "swap": "swap 0 --uuid GPU-x",
    "slow": "slow nvmlDeviceGetName --card 0 --seconds 0.5 --count 3",
    "fail": "fail nvmlInit --with DRIVER_NOT_LOADED --count 3 --seconds 1",
    "faults": "faults clear",
    "init-fails": "init-fails none",
    "device-file": "device-file nvidia-uvm missing",
    "reboot": "reboot --still-lost",
}


def test_every_change_has_a_command() -> None:
    """Each change has a command, and the list here names all of them."""
    assert WHOLE.keys() == set(CHANGES)
    assert [parse_words(line.split()).command for line in WHOLE.values()] == list(WHOLE)


@pytest.mark.parametrize("command", [*CHANGES, "init", "show", "record", "exec", "run"])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` prints a page and exits with 0."""
    with pytest.raises(SystemExit) as left:
        parse([command, "--help"])

    page = capsys.readouterr().out
    assert left.value.code == 0
    assert f"usage: fake-nvml {command}" in page
    assert len(page.splitlines()) > 3


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a line."""
    with pytest.raises(SystemExit):
        parse(["--help"])

    page = capsys.readouterr().out
    assert all(f"\n    {command}" in page for command in [*CHANGES, "init", "show", "record", "exec", "run"])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sell", "invalid choice: 'sell' (choose from "),
        ("set 0 temprature 80", "invalid choice: 'temprature' (choose from "),
        ("lose", "required: CARD"),
        ("add", "required: --model"),
        ("fail nvmlInit", "required: --with"),
        ("xid 0 many", "invalid int value: 'many'"),
        ("slow nvmlInit --sec 3", "unrecognized arguments: --sec 3"),
        ("exec", "exec needs a program"),
        ("show -- true", "show takes nothing after --"),
    ],
)
def test_a_wrong_word_is_refused_with_the_usage(line: str, says: str) -> None:
    """The error has the word, or what is missing."""
    with pytest.raises(UsageError) as wrong:
        parse_words(line.split())

    assert says in str(wrong.value)
    assert "--help' for usage" in str(wrong.value)
    assert wrong.value.usage.startswith("usage: fake-nvml")
