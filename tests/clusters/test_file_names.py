"""Promises of clusters.file_names."""

from __future__ import annotations

import pytest

from clusters.file_names import file_name


@pytest.mark.parametrize("name", ["a", "a" * 40, "a-" * 19 + ".x"])
def test_a_short_name_stays(name: str) -> None:
    """People find the files of a node by its name."""
    assert file_name(name, 40) == name


def test_long_names_are_cut_and_stay_apart() -> None:
    """Two nodes with names that begin alike have files of their own, and a label's value ends with a letter or a digit."""
    one, other = file_name("a" * 63 + "b", 63), file_name("a" * 63 + "c", 63)

    assert (len(one), one[:54], len({one, other})) == (63, "a" * 54, 2)
    assert file_name("a" * 53 + "." + "b" * 200, 63).startswith("a" * 53 + "-")
