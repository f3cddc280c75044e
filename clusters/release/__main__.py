"""``python -m clusters.release``: the parts of a release, each by a verb. None of them publishes anything.

``check`` compares the places that state a version, ``notes`` prints the notes of the version, ``wheels`` judges the wheels,
``plugins`` packs the plugins of kubectl, ``krew`` writes their manifests, ``chart`` packs the chart, ``checksums`` writes
SHA256SUMS.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters.processes.commands import exit_code_of
from clusters.provider import ClusterError
from clusters.release import release_files
from clusters.release.release_files import notes_of

ROOT: Final = Path(__file__).parents[2]
_COMMAND: Final = "release"


def main(argv: Sequence[str] | None = None) -> int:
    """See ``commands.exit_code_of``; 2 for a call that makes no sense."""
    arguments = _parser().parse_args(argv)
    return exit_code_of(_COMMAND, lambda: arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m clusters.release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    check = verbs.add_parser("check", help="fail if a place states another version, or if there are no notes")
    check.add_argument("--tag", metavar="TAG", help="the tag of the release, v and the version")
    check.set_defaults(run=_check)
    notes = verbs.add_parser("notes", help="print the notes of this version")
    notes.set_defaults(run=lambda _: _say(_notes(), end=""))
    for verb, text, run in (
        ("wheels", "fail unless the folder has our wheels, in this version", _wheels),
        ("plugins", "pack the plugins of kubectl with our wheel in the folder; asks the package index", _plugins),
        ("krew", "write a manifest of krew for each plugin, from the archives in the folder", _krew),
        ("chart", "pack the chart into the folder; needs helm (python -m clusters.deploy.chart_tools)", _chart),
        ("checksums", "write SHA256SUMS of the files in the folder", _checksums),
    ):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("folder", type=Path, metavar="FOLDER")
        one.set_defaults(run=run)
        _add_options(verb, one)
    return parser


def _add_options(verb: str, parser: argparse.ArgumentParser) -> None:
    if verb == "plugins":
        platforms = release_files.PLATFORMS
        parser.add_argument("--platform", action="append", choices=platforms, help="only this one; may be repeated")
    if verb == "krew":
        parser.add_argument("--homepage", required=True, metavar="URL", help="the page of the repository")
        parser.add_argument("--url", required=True, metavar="URL", help="the address below which the archives will be")
    if verb == "chart":
        registry = (
            "the folder of a registry in which the images are (default: the manifests' own, which does not resolve)"
        )
        parser.add_argument("--registry", default="registry.invalid/gpushare", metavar="NAME", help=registry)
        for image in release_files.IMAGES:
            parser.add_argument(f"--{image}", default="", metavar="sha256:…", help=f"the digest of the image {image}")


def _check(arguments: argparse.Namespace) -> None:
    version = _version()
    wrong = release_files.disagreements({name: _text(name) for name in release_files.PLACES}, version)
    if arguments.tag not in (None, f"v{version}"):
        wrong.append(f"the tag is {arguments.tag}, and the version {version}")
    if wrong:
        raise ClusterError("\n".join(wrong))
    _notes()
    _say(version)


def _wheels(arguments: argparse.Namespace) -> None:
    for wheel in release_files.judge_wheels(arguments.folder, _version()):
        _say(wheel.name)


def _plugins(arguments: argparse.Namespace) -> None:
    (own,) = (one for one in arguments.folder.glob("*.whl") if one.name.startswith("gpushare_scheduler-"))
    for platform in arguments.platform or release_files.PLATFORMS:
        packed = release_files.make(
            plugins(), own, _text(".ci/constraints/product.txt"), (ROOT / "LICENSE").read_bytes(), platform
        )
        path = arguments.folder / release_files.archive_name(_version(), platform)
        path.write_bytes(packed)
        _say(f"{path.name}: {len(packed) / 2**20:.1f} MiB")


def _krew(arguments: argparse.Namespace) -> None:
    names = {one: release_files.archive_name(_version(), one) for one in release_files.PLATFORMS}
    if missing := [name for name in names.values() if not (arguments.folder / name).is_file()]:
        raise ClusterError(f"{arguments.folder}: has no {', '.join(missing)}")
    archives = {
        one: (f"{arguments.url}/{name}", release_files.digest_of(arguments.folder / name))
        for one, name in names.items()
    }
    for plugin in plugins():
        text = release_files.manifest(plugin, _version(), arguments.homepage, archives)
        # Krew wants the plugin's own name.
        (arguments.folder / f"{plugin.name}.yaml").write_text(text, encoding="utf-8")
        _say(f"{plugin.name}.yaml")


def _chart(arguments: argparse.Namespace) -> None:
    digests = {image: getattr(arguments, image.replace("-", "_")) for image in release_files.IMAGES}
    _say(release_files.package(arguments.registry, digests, arguments.folder, dict(os.environ)).name)


def _checksums(arguments: argparse.Namespace) -> None:
    text = release_files.checksums(arguments.folder)
    (arguments.folder / release_files.CHECKSUMS).write_text(text, encoding="utf-8")
    _say(text, end="")


def plugins() -> list[release_files.Plugin]:
    """The plugins of this checkout."""
    return release_files.plugins_of(tomllib.loads(_text("pyproject.toml"))["project"]["scripts"])


def _version() -> str:
    return release_files.version_of({name: _text(name) for name in release_files.PLACES})


def _notes() -> str:
    notes = notes_of(_text("CHANGELOG.md"), _version())
    if not notes:
        raise ClusterError(f"CHANGELOG.md has nothing about {_version()}")
    return notes


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end)  # noqa: T201  # a command's output


if __name__ == "__main__":
    sys.exit(main())
