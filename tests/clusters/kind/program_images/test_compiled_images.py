"""The C compiler's programs for the images."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.images import image_command
from clusters.kind.program_images import compiled_images
from fake_nvml.eras import ERAS
from fake_nvml.native.build import LIBRARY

# Parts of a program in ELF: a segment to load, and the loader of its libraries.
PT_LOAD, PT_INTERP = 1, 3


def test_the_player_needs_no_other_file(player: Path) -> None:
    """Static: its image holds nothing else."""
    elf = (player / "player").read_bytes()
    offset, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    kinds = [struct.unpack_from("<I", elf, offset + place * size)[0] for place in range(count)]

    assert elf[:5] == b"\x7fELF\x02"
    assert PT_LOAD in kinds
    assert PT_INTERP not in kinds


@pytest.mark.parametrize("name", ["true", "false", "echo", "env", "printenv", "exit", "sleep", *image_command.SHELLS])
def test_every_command_of_the_stand_in_is_a_name_of_it(player: Path, name: str) -> None:
    """Every command of the stand-in is a name of the player, so that one manifest runs on both."""
    assert (player / Path(name).name).resolve() == (player / "player").resolve()


def test_all_eras_of_the_library_are_laid_beside_it(player: Path, tmp_path: Path) -> None:
    """By the module that a build stage runs."""
    argv = [sys.executable, "-m", "clusters.kind.program_images.compiled_images", str(tmp_path)]
    subprocess.run(argv, check=True, timeout=500)

    assert {path.parent.name for path in (tmp_path / "libraries").glob(f"*/{LIBRARY}")} == {str(era) for era in ERAS}
    assert (tmp_path / "player" / "bin" / "sleep").is_symlink()


def test_a_call_that_makes_no_sense_is_a_usage_error() -> None:
    """Exit code 2."""
    assert compiled_images.main([]) == 2
