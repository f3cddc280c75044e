"""Which wheels fit a base, and when they are fetched again."""

from __future__ import annotations

from clusters.kind.offline.wheels import key, lists, platforms
from clusters.kind.program_images.build import CHECKOUT


def test_platforms_are_those_of_a_glibc_base() -> None:
    """The newest first; no musl, no other machine."""
    names = platforms("x86_64")

    assert names[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(names)
    assert all(name.startswith("manylinux") and name.endswith("_x86_64") for name in names)


def test_the_product_s_own_dependencies_are_fetched() -> None:
    """The lists hold the product's dependencies and pip, which installs them, but not the extras of the harness."""
    wanted = "".join(path.read_text() for path in lists(CHECKOUT))

    assert "\ngrpcio==" in wanted
    assert "\npip==" in wanted
    assert "\npytest==" not in wanted


def test_another_version_or_python_is_another_folder() -> None:
    """A cache that outlives a change of pins would install the old versions."""
    keys = {
        key(["a==1"], "3.11"),
        key(["a==2"], "3.11"),
        key(["a==1"], "3.13"),
        key(["a==1", "b==1"], "3.11"),
    }

    assert len(keys) == 4
