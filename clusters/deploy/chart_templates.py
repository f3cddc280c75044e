"""``python -m clusters.deploy.chart_templates``: write the templates of the Helm chart from the kustomizations.

The manifests are written once, in base/, components/ and overlays/. A resource becomes a template with its text, under the
condition of its component. The two workloads, which components patch, become templates in which each patch is a condition, and the
fields that a site sets come from values. Tests compare what helm and kustomize render.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent
TEMPLATES: Final = FOLDER / "chart" / "templates"
# The overlays that the chart offers, in the order in which their patches are applied. The one for kind is for clusters of tests.
OVERLAYS: Final = ("nodeport", "second-scheduler", "single-node", "kubeadm-old", "openshift")
_HEADER: Final = "{{/* Made by `make generate` from %s: edit there. */ -}}\n"
_MONITORING_LABELS: Final = "    {{- with .Values.monitoring.labels }}{{ toYaml . | nindent 4 }}{{ end }}"
# Where a workload has the fields that a site sets, and which values set them.
_POD: Final = ("spec", "template", "spec")
_CONTAINER: Final = (*_POD, "containers", 0)
# By default the version of the API server, without what a provider adds to it.
_SCHEDULER_IMAGE: Final = (
    '"{{ .Values.kubeScheduler.image.repository }}:{{ .Values.kubeScheduler.image.tag | '
    'default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version) }}"'
)
_PROGRAMS: Final = {"Deployment": "extender", "DaemonSet": "devicePlugin"}

Node = Any


@dataclass(frozen=True, slots=True)
class When:
    """An entry that is there under a condition."""

    condition: str
    value: Node


@dataclass(frozen=True, slots=True)
class Either:
    """An entry that a component replaces."""

    condition: str
    value: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Code:
    """The text behind a key, as a template has it."""

    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """The base, a component or an overlay."""

    folder: Path
    condition: str
    """The value that switches it on, as templates have it; "" for the base."""
    resources: tuple[str, ...]
    patches: tuple[tuple[Mapping[str, str], Node], ...]
    """The target of each, and the patch: operations, or an object to merge."""


@cache
def parts() -> tuple[Part, ...]:
    """The base, and all that can be switched on in the order in which the chart applies it."""
    components = sorted(path for path in (FOLDER / "components").iterdir() if path.is_dir())
    overlays = [FOLDER / "overlays" / name for name in OVERLAYS]
    return (
        _part(FOLDER / "base", ""),
        *(_part(path, _condition(path, overlays)) for path in (*overlays, *components)),
    )


def _condition(folder: Path, overlays: Iterable[Path]) -> str:
    """Its own value, or that of an overlay that includes it."""
    including = [overlay for overlay in overlays if folder in _included(overlay)]
    values = [f".Values.{path.parent.name}.{value_of(path.name)}" for path in (folder, *including)]
    return values[0] if len(values) == 1 else f"(or {' '.join(values)})"


def _included(folder: Path) -> list[Path]:
    found = _kustomization(folder)
    names = (*found.get("resources", ()), *found.get("components", ()))
    return [(folder / name).resolve() for name in names if name.startswith("..")]


def _kustomization(folder: Path) -> Node:
    return yaml.safe_load((folder / "kustomization.yaml").read_text())


def _part(folder: Path, condition: str) -> Part:
    found = _kustomization(folder)
    patches = [(patch["target"], yaml.safe_load(patch["patch"])) for patch in found.get("patches", ())]
    files = [name for name in found.get("resources", ()) if not name.startswith("..")]
    return Part(folder, condition, tuple(files), tuple(patches))


def value_of(name: str) -> str:
    """A folder's name as values have it: ``several-extenders`` is ``severalExtenders``."""
    first, *others = name.split("-")
    return first + "".join(word.capitalize() for word in others)


def templates() -> dict[str, str]:
    """The text of each template, by its name."""
    return {
        f"{part.folder.name}-{name}": _HEADER % f"{part.folder.relative_to(FOLDER).as_posix()}/{name}"
        + _template((part.folder / name).read_text(), part.condition)
        for part in parts()
        for name in part.resources
    }


def _template(text: str, condition: str) -> str:
    """The objects of one file."""
    documents = [_document(one, condition) for one in re.split(r"(?m)^---\n", text)]
    return "---\n".join(documents)


def _document(text: str, condition: str) -> str:
    item = yaml.safe_load(text)
    if item["kind"] in _PROGRAMS:
        return "\n".join(_lines(_workload(item))) + "\n"
    text = text.replace("{{", '{{ "{{" }}')
    if item["apiVersion"].startswith("monitoring.coreos.com/"):
        text = text.replace("\n  labels:\n", f"\n  labels:\n{_MONITORING_LABELS}\n", 1)
    for one in (*((condition,) if condition else ()), *(f"(not {one})" for one in _removals(item))):
        text = f"{{{{- if {one} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _removals(item: Node) -> Iterator[str]:
    """The conditions under which a component takes an object away."""
    for part in parts():
        for target, patch in part.patches:
            if isinstance(patch, dict) and patch.get("$patch") == "delete" and target["kind"] == item["kind"]:
                key, _, value = target["labelSelector"].partition("=")
                if item["metadata"]["labels"].get(key) == value:
                    yield part.condition


def _workload(item: Node) -> Node:
    """A Deployment or DaemonSet with each component's patches as conditions, and with the values of sites."""
    tree = copy.deepcopy(item)
    for part in parts():
        for target, patch in part.patches:
            if target["kind"] == item["kind"]:
                for operation in patch:
                    apply(tree, operation, part.condition)
    return _with_values(tree, f".Values.{_PROGRAMS[item['kind']]}")


def apply(tree: Node, operation: Mapping[str, Any], condition: str) -> None:
    """One operation of a JSON patch (RFC 6902), as a condition. Raises ValueError for one that the chart cannot express."""
    *path, last = operation["path"].removeprefix("/").split("/")
    parent, verb = tree, operation["op"]
    for key in path:
        parent = parent[int(key) if isinstance(parent, list) else key]
    at = int(last) if isinstance(parent, list) and last != "-" else last
    if verb == "test":
        return
    if verb == "add" and last == "-":
        parent.append(When(condition, operation["value"]))
    elif verb == "add" and isinstance(parent, dict) and at not in parent:
        parent[at] = When(condition, operation["value"])
    elif verb == "add" and isinstance(parent, dict) and _is_same(parent[at], operation["value"]):
        parent[at] = When(f"(or {parent[at].condition} {condition})", operation["value"])
    elif verb == "replace":
        parent[at] = Either(condition, operation["value"], parent[at])
    elif verb == "remove" and isinstance(parent, dict):
        parent[at] = When(f"(not {condition})", parent[at])
    else:
        raise ValueError(f"no template for {operation}")


def _is_same(there: Node, value: Node) -> bool:
    """Does another component add the same?"""
    return isinstance(there, When) and there.value == value


def _with_values(tree: Node, values: str) -> Node:
    """The fields that a site sets, from values."""
    pod, container = _at(tree, _POD), _at(tree, _CONTAINER)
    image = f"{values}.image"
    container["image"] = Code(
        f'"{{{{ {image}.repository }}}}{{{{ with {image}.digest }}}}@{{{{ . }}}}{{{{ else }}}}:'
        f'{{{{ {image}.tag | default .Chart.AppVersion }}}}{{{{ end }}}}"'
    )
    for other in pod["containers"]:
        if isinstance(other, When):
            other.value["image"] = Code(_SCHEDULER_IMAGE)
    container["imagePullPolicy"] = When(f"{image}.pullPolicy", Code(f"{{{{ {image}.pullPolicy }}}}"))
    container["args"].append(Code(f"{{{{- with {values}.args }}}}{{{{ toYaml . | nindent 12 }}}}{{{{ end }}}}"))
    container["resources"] = Code(f"{{{{ toYaml {values}.resources | nindent 12 }}}}")
    pod["nodeSelector"] = Code(f"{{{{ toYaml {values}.nodeSelector | nindent 8 }}}}")
    pod["imagePullSecrets"] = When(
        ".Values.imagePullSecrets", Code("{{ toYaml .Values.imagePullSecrets | nindent 8 }}")
    )
    replicas = tree["spec"].get("replicas")
    if isinstance(replicas, Either):
        # One extender alone, whatever the value: several without the guard would give a card twice.
        tree["spec"]["replicas"] = Either(replicas.condition, Code(f"{{{{ {values}.replicas }}}}"), replicas.otherwise)
    return tree


def _at(tree: Node, path: tuple[str | int, ...]) -> Node:
    for key in path:
        tree = tree[key]
    return tree


def _lines(node: Node, indent: str = "") -> Iterator[str]:
    """The YAML of a mapping or a list, with its conditions as actions of a template."""
    entries = node.items() if isinstance(node, dict) else ((None, value) for value in node)
    for key, value in entries:
        yield from _entry(key, value, indent)


def _entry(key: str | None, value: Node, indent: str) -> Iterator[str]:
    if isinstance(value, When | Either):
        yield f"{{{{- if {value.condition} }}}}"
        yield from _entry(key, value.value, indent)
        if isinstance(value, Either):
            yield "{{- else }}"
            yield from _entry(key, value.otherwise, indent)
        yield "{{- end }}"
    elif key is None and isinstance(value, Code):
        yield f"{indent}{value.text}"
    elif key is None and isinstance(value, dict):
        first, *others = _lines(value, indent + "  ")
        yield f"{indent}- {first.lstrip()}"
        yield from others
    else:
        start = f"{indent}- " if key is None else f"{indent}{_scalar(key)}: "
        if isinstance(value, dict | list) and value:
            yield start.rstrip()
            yield from _lines(value, indent + "  ")
        else:
            yield start + (value.text if isinstance(value, Code) else _scalar(value))


def _scalar(value: Any) -> str:
    """One value on one line, in quotes if YAML would read it as something else."""
    return yaml.safe_dump(value, default_flow_style=True, width=sys.maxsize).removesuffix("\n").removesuffix("\n...")


def main() -> int:
    """Write the templates, and remove those that have no source any more."""
    wanted = templates()
    for path in TEMPLATES.glob("*.yaml"):
        if path.name not in wanted and path.read_text().startswith(_HEADER.partition("%")[0]):
            path.unlink()
    for name, text in wanted.items():
        (TEMPLATES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
