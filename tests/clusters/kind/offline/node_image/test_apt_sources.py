"""Promises of clusters.kind.offline.node_image.apt_sources."""

from __future__ import annotations

import pytest

from clusters.kind.offline.node_image.apt_sources import Source, mirror

LINES = """# deb http://commented.test/debian bookworm main
deb-src http://sources.test/debian bookworm main
deb [arch=amd64 signed-by=/keys/a.gpg] http://other.test/x stable main
deb [signed-by=/keys/b.gpg] http://one.test/debian bookworm main contrib # near
deb http://two.test/debian bookworm main
"""
PARAGRAPHS = """# A comment
Types: deb deb-src
URIs: http://one.test/debian
 http://two.test/debian
Suites: bookworm bookworm-updates
# in between
Components: main contrib
Signed-By: /keys/c.gpg

Types: deb-src
URIs: http://sources.test/debian
Suites: trixie
Components: main

Types: deb
Enabled: no
URIs: http://disabled.test/debian
Suites: trixie
Components: main

Types: deb
URIs: http://three.test/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""


def test_one_line_form_is_read() -> None:
    """Comments, source packages and other suites are passed over; options and what follows # are understood."""
    expected = Source("http://one.test/debian", "bookworm", ("main", "contrib"), "/keys/b.gpg")

    assert mirror([("sources.list", LINES)], "bookworm") == expected


def test_paragraphs_are_read() -> None:
    """Fields over several lines, several suites in one; comments in between."""
    expected = Source("http://one.test/debian", "bookworm-updates", ("main", "contrib"), "/keys/c.gpg")

    assert mirror([("debian.sources", PARAGRAPHS)], "bookworm-updates") == expected


def test_paragraphs_that_are_off_or_of_sources_do_not_count() -> None:
    """And keys that stand in the paragraph itself are no file."""
    assert mirror([("debian.sources", PARAGRAPHS)], "trixie") == Source("http://three.test/debian", "trixie", ("main",))


def test_keys_that_are_no_file_are_the_systems() -> None:
    """A fingerprint picks one of the system's keys: there is no file to name."""
    text = "Types: deb\nURIs: http://a.test\nSuites: sid\nComponents: main\nSigned-By: 0123ABCD\n"

    assert mirror([("a.sources", text)], "sid") == Source("http://a.test", "sid", ("main",), "")


def test_the_first_file_wins() -> None:
    """In the order that apt has."""
    files = [("a.list", "deb http://first.test/ bookworm main"), ("b.sources", PARAGRAPHS)]
    found = mirror(files, "bookworm")

    assert found is not None
    assert found.url == "http://first.test/"


@pytest.mark.parametrize("suite", ["sid", "stable"], ids=["unknown", "of another component"])
def test_no_source_is_none(suite: str) -> None:
    """A suite that does not exist."""
    assert mirror([("x.list", LINES.replace("stable main", "stable extra")), ("y.sources", PARAGRAPHS)], suite) is None
