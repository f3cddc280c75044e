"""Promises of clusters.release.krew_manifest."""

from __future__ import annotations

import yaml

from clusters.release.__main__ import plugins
from clusters.release.krew_manifest import PLATFORMS, Plugin, manifest, plugins_of


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


def test_a_manifest_names_an_archive_for_each_platform() -> None:
    """With its address, its checksum, and the program in it."""
    archives = {name: (f"https://forge.example/{name}", f"sum of {name}") for name in PLATFORMS}
    for plugin in plugins():
        document = yaml.safe_load(manifest(plugin, "1.2.3", "https://forge.example", archives))

        assert document["metadata"]["name"] == plugin.name
        assert document["spec"]["version"] == "v1.2.3"
        platforms = {"-".join(one["selector"]["matchLabels"].values()): one for one in document["spec"]["platforms"]}
        assert {name: (one["uri"], one["sha256"], one["bin"]) for name, one in platforms.items()} == {
            name: (*archive, plugin.program) for name, archive in archives.items()
        }
