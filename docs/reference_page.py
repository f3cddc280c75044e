"""Writes docs/reference.md: flags and variables of the programs, metrics, and the names that other programs see.

``make generate`` runs it; ``.ci/run`` fails if the page is out of date.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
from prometheus_client.core import Metric

from gpushare import wire
from gpushare.cli.flags import Flag, flags_of
from gpushare.cli.settings import IGNORED, DevicePluginSettings, ExtenderSettings
from gpushare.deviceplugin import main as device_plugin
from gpushare.deviceplugin import metrics_exposition
from gpushare.deviceplugin.core.plugin_metrics import PluginMetrics
from gpushare.deviceplugin.core.usage import NodeUse
from gpushare.extender import exposition
from gpushare.extender import main as extender
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.extender_metrics import ExtenderMetrics
from gpushare.kubectl_gpushare import main as explaining
from gpushare.kubectl_gpushare.core.waiting_kinds import KINDS
from gpushare.kubectl_gpushare.gpushare_arguments import VERBS
from gpushare.kubectl_inspect import main as inspect
from gpushare.kubectl_inspect.inspect_arguments import Arguments as InspectArguments
from gpushare.manifests import Node
from gpushare.model.cards import CARDS_VERSION, MODE_IDS, NodeCards
from gpushare.setup import main as setup
from gpushare.setup.setup_arguments import Arguments

# The longest line of a paragraph.
_COLUMNS: Final = 100
_PAGE: Final = Path(__file__).with_name("reference.md")
_INTRODUCTION: Final = """# Reference

Written by `make generate` from the code; do not edit. Events and reasons are explained in
[troubleshooting.md](troubleshooting.md). A flag may have one dash or two, and its value follows
after `=` or a space, as in Go programs. glog's flags are accepted and ignored.
"""
_DASHES: Final = ("--", "-")
_PROGRAMS: Final[dict[str, ModuleType]] = {
    "gpushare-schd-extender": extender,
    "gpushare-device-plugin": device_plugin,
    "kubectl inspect gpushare": inspect,
    "kubectl gpushare": explaining,
    "gpushare-setup": setup,
}
# The names of ``wire`` that are shown; what begins them alone is not.
_SHOWN: Final = re.compile(
    r"(?:RESOURCE|ANNOTATION|CONDITION|WISH|ENV|LABEL|EVENT|PATH|GUARDS|UNHEALTHY)_(?!PREFIX)\w+"
)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _paragraph(text: str) -> str:
    return textwrap.fill(
        text, _COLUMNS, subsequent_indent="  " if text.startswith("- ") else "", break_on_hyphens=False
    )


def _flags(kind: type[Any], ignored: tuple[Flag, ...] = ()) -> Iterator[str]:
    yield from (_row("flag", "default", "meaning"), "|---|---|---|")
    for one in (*flags_of(kind), *ignored):
        names = ", ".join(f"`{'' if one.is_positional else _DASHES[len(name) == 1]}{name}`" for name in one.names)
        choices = f" ({', '.join(f'`{choice}`' for choice in one.choices)})" if one.choices else ""
        yield _row(names + choices, one.default_shown, one.help)


def _variables(kind: type[Any]) -> Iterator[str]:
    """Environment variables that stand for no flag."""
    for one in fields(kind):
        if "variable" in one.metadata:
            yield f"`{one.metadata['variable']}`"
        if "group" in one.metadata:
            yield from _variables(one.metadata["group"])


def _extenders_families() -> Iterable[Metric]:
    book = Book()
    cards = {wire.RESOURCE_MEMORY: "2", wire.RESOURCE_COUNT: "1"}
    book.set_node(msgspec.convert({"metadata": {"name": "n"}, "status": {"capacity": cards}}, Node))
    return exposition.ExtenderExposition(ExtenderMetrics(lambda: 0), book, FilterCache(), dict, lambda: 0.0).collect()


def _plugins_families() -> Iterable[Metric]:
    metrics = PluginMetrics()
    metrics.seen, metrics.limits = NodeUse(), {}
    metrics.cards = lambda: NodeCards(CARDS_VERSION, MODE_IDS, "GiB", "", ())
    return metrics_exposition.PluginExposition(metrics).collect()


def _series(families: Iterable[Metric]) -> Iterator[str]:
    yield from (_row("series", "type", "labels", "meaning"), "|---|---|---|---|")
    rows = set()
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels: tuple[str, ...] = family._labelnames  # type: ignore[attr-defined]  # the library shows it nowhere else
        rows.add(_row(f"`{name}`", family.type, ", ".join(labels), family.documentation))
    yield from sorted(rows)


def _names() -> Iterator[str]:
    """Each comment of ``wire``, and the names below it."""
    comment: list[str] = []
    for line in Path(str(wire.__file__)).read_text().splitlines():
        found = _SHOWN.match(line)
        if line.startswith("# "):
            comment.append(line[2:])
        elif not line:
            comment.clear()
        elif found is not None:
            if comment:
                yield from ("", _paragraph(" ".join(comment)), "")
            comment.clear()
            yield f"- `{getattr(wire, found[0])}`"
        elif not line.startswith(("RESOURCE_PREFIX", "PEOPLE_PREFIX", "PATH_PREFIX")):
            comment.clear()


def _verbs() -> Iterator[str]:
    """The commands of kubectl gpushare."""
    for verb, (kind, description) in VERBS.items():
        yield from (f"\n## Arguments of kubectl gpushare {verb}\n", _paragraph(description), "", *_flags(kind))


def _kinds() -> Iterator[str]:
    yield from (_row("kind", "means", "what to do"), "|---|---|---|")
    yield from (_row(f"`{kind}`", means, advice) for kind, (means, advice) in KINDS.items())


def page() -> str:
    """The whole page."""
    meanings = {name: " ".join(module.main.__doc__.partition("; ")[2].split()) for name, module in _PROGRAMS.items()}
    codes = (_paragraph(f"- `{name}`: {meaning}") for name, meaning in meanings.items())
    variables = " and ".join(_variables(DevicePluginSettings))
    parts = [
        _INTRODUCTION,
        "## Flags of the extender\n", *_flags(ExtenderSettings),
        "\n## Flags of the device plugin\n", *_flags(DevicePluginSettings, IGNORED),
        "", _paragraph(f"{variables} are environment variables. They are read as NVIDIA's device plugin reads them."),
        "\n## Arguments of gpushare-setup\n", *_flags(Arguments),
        "\n## Arguments of kubectl inspect gpushare\n", *_flags(InspectArguments),
        *_verbs(),
        "\n## Exit codes\n", *codes,
        "\n## Kinds of waiting\n", _paragraph("The kinds that `kubectl gpushare explain` names, in its order."), "", *_kinds(),
        "\n## Metrics of the extender\n", *_series(_extenders_families()),
        "\n## Metrics of the device plugin\n", *_series(_plugins_families()),
        "\n## Names that other programs see", *_names(),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    _PAGE.write_text(page())
