"""Promises of clusters.release.krew_manifest."""

from __future__ import annotations

from clusters.release.__main__ import plugins
from clusters.release.krew_manifest import Plugin, plugins_of


def test_krew_gets_the_scripts_that_it_can_link() -> None:
    """Krew puts underscores for dashes, so a program with two dashes in its name is no plugin of it."""
    scripts = {
        "kubectl-inspect-gpushare": "a:main",
        "kubectl-inspect_gpushare": "a:main",
        "kubectl-one": "b:run",
        "x": "c:main",
    }

    assert plugins_of(scripts) == [Plugin("inspect-gpushare", "a:main"), Plugin("one", "b:run")]


def test_our_plugins_are_programs_of_the_product() -> None:
    """Each program is a console script of the wheel, under the name that krew links."""
    assert "kubectl-inspect_gpushare" in [plugin.program for plugin in plugins()]
