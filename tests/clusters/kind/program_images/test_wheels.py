"""Which wheels fit a base, and when they are fetched again."""

from __future__ import annotations

from clusters.kind.program_images.context import CHECKOUT
from clusters.kind.program_images.wheels import dependencies, key, platforms


def test_platforms_are_those_of_a_glibc_base() -> None:
    """The newest first; no musl, no other machine."""
    names = platforms("x86_64")

    assert names[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(names)
    assert all(name.startswith("manylinux") and name.endswith("_x86_64") for name in names)


def test_the_product_s_own_dependencies_are_fetched() -> None:
    """Those that pyproject.toml names, without extras of the harness."""
    wanted = dependencies(CHECKOUT / "pyproject.toml")

    assert any(wish.startswith("grpcio") for wish in wanted)
    assert not any(wish.startswith("pytest") for wish in wanted)


def test_another_version_or_python_is_another_folder() -> None:
    """A cache that outlives a change of pins would build what nobody asked for."""
    keys = {
        key(["a"], "a==1", "3.11"),
        key(["a"], "a==2", "3.11"),
        key(["a"], "a==1", "3.13"),
        key(["a", "b"], "a==1", "3.11"),
    }

    assert len(keys) == 4
