"""The changes of a node's files, and its faults."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpushare import wire
from gpushare.setup.core import sites
from gpushare.setup.core.faults import Fault, SetupRefusedError
from gpushare.setup.core.scheduler_files import (
    as_original,
    extender_entry,
    extenders_of,
    file_faults,
    is_gpushares,
    is_originals,
)
from gpushare.setup.core.sites import ControlPlaneNode, Wish
from gpushare.setup.core.static_pod import is_scheduler, mounted_under
from gpushare.setup.core.yaml_edit import Entry, applied, found_in, load, removed


@dataclass(frozen=True, slots=True)
class Change:
    """A file and what becomes of it; None for a file that is not there."""

    path: str
    old: str | None
    new: str | None

    def diff(self) -> str:
        """For people."""
        old, new = (self.old or "").splitlines(keepends=True), (self.new or "").splitlines(keepends=True)
        lines = difflib.unified_diff(
            old,
            new,
            self.path if self.old is not None else "/dev/null",
            self.path if self.new is not None else "/dev/null",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def installation(files: Mapping[str, str], wish: Wish) -> tuple[ControlPlaneNode, list[Change]]:
    """The site, and what changes so that its kube-scheduler asks the extender, in this order. Raises SetupRefusedError."""
    site = sites.recognise(files, wish)
    _refuse_others(files, site, wish)
    missing = [path for path in sites.tls_files(wish) if path not in files]
    if missing:
        raise SetupRefusedError(
            f"{missing[0]} is not on this node, and kube-scheduler would not start", "put it there first"
        )
    changes = [Change(site.file, files.get(site.file), site.text)]
    if changes[0].old is not None and load(changes[0].old, site.file) == load(site.text, site.file):
        changes = []
    old = files.get(site.document)
    new = applied(old or "", site.entries, site.document)
    if new != (old or ""):
        changes.append(Change(site.document, old, new))
    return site, _allowed(site, changes)


def removal(files: Mapping[str, str], wish: Wish) -> tuple[ControlPlaneNode, list[Change]]:
    """The site, and what changes so that nothing of gpushare is left, in this order. Raises SetupRefusedError."""
    site = sites.recognise(files, replace(wish, is_replacing=False))
    if site.is_extended:
        return site, _allowed(site, _extender_taken_out(files, site))
    old = files.get(site.document)
    changes = []
    if old is not None and (new := removed(old, _ours(site, load(old, site.document)), site.document)) != old:
        changes.append(Change(site.document, old, new or None))
    if site.is_by_hand and (old is None or changes):
        raise SetupRefusedError(
            f"{site.name} may still name {site.file}, and kube-scheduler would not start without that file",
            f"{site.afterwards}; then run uninstall with --rke-cluster",
        )
    if site.file in files:
        if site.named_by:
            raise SetupRefusedError(
                f"{site.named_by}: it names {site.file}, and kube-scheduler would not start without that file",
                f"take {site.argument} out there by hand, then run gpushare-setup uninstall",
            )
        changes.append(Change(site.file, files[site.file], None))
    return site, _allowed(site, changes)


def _extender_taken_out(files: Mapping[str, str], site: ControlPlaneNode) -> list[Change]:
    """A person's own file stays, without gpushare's extender."""
    changes = []
    extender = extender_entry(load(files.get(site.file, ""), site.file), site.wish.url, site.wish.tls)
    for path, entries in ((site.file, [extender]), (site.document, _marks(site))):
        old = files.get(path)
        if old is not None and (new := removed(old, entries, path)) != old:
            changes.append(Change(path, old, new))
    return changes


def _marks(site: ControlPlaneNode) -> list[Entry]:
    if site.pod is None:
        return []
    return [one for one in site.entries if one.at[-1] == wire.ANNOTATION_SCHEDULER_FILE] + mounted_under(
        site.pod, sites.VOLUMES
    )


def _allowed(site: ControlPlaneNode, changes: list[Change]) -> list[Change]:
    if changes and site.owner:
        raise SetupRefusedError(f"{changes[0].path}: it is changed by another program than gpushare-setup", site.owner)
    return changes


def _ours(site: ControlPlaneNode, document: Any) -> list[Entry]:
    """The entries of a document that are ours: a person's own value of the same flag is not."""
    mounts = mounted_under(site.pod, sites.VOLUMES) if site.pod is not None else []
    return [
        entry
        for entry in (*site.entries, *mounts)
        if found_in(document, entry) == [entry.value] or entry.at[-1] == wire.ANNOTATION_SCHEDULER_FILE
    ]


def _refuse_others(files: Mapping[str, str], site: ControlPlaneNode, wish: Wish) -> None:
    """A scheduler's file that is not ours to change."""
    for flag, path in site.current.items():
        others = [one for one in extenders_of(load(files.get(path, ""), path)) if not is_gpushares(one)]
        if others and path != site.file:
            raise SetupRefusedError(
                f"{path}: kube-scheduler asks the extender of another program: {others[0].get('urlPrefix')}",
                f"add gpushare's extender to that file by hand; {site.document} is not changed",
            )
        if flag != site.flag:
            raise SetupRefusedError(
                f"{site.document}: kube-scheduler has --{flag}={path}, and of Kubernetes 1.{site.minor} it needs --{site.flag}",
                f"take --{flag} out, then {wish.apply}",
            )
    if site.is_extended and wish.is_replacing:
        raise SetupRefusedError(
            f"{site.named_by or site.document}: it names {site.file}, in a form that is not edited here",
            f"take {site.argument} out by hand, or leave out --replace, and that file is extended",
        )
    if site.file not in files and site.is_extended:
        raise SetupRefusedError(
            f"{site.named_by or site.document}: kube-scheduler has {site.argument}, which is not on this node",
            "write that file, or take the flag out",
        )
    wrong = file_faults(load(site.text, site.file), site.minor, site.text)
    if wrong:
        fix = "change it by hand" if site.is_extended else f"write it again: {wish.apply} --replace"
        raise SetupRefusedError(f"{site.file}: {wrong[0]}", fix)


def node_faults(files: Mapping[str, str], wish: Wish, running: Iterable[tuple[str, ...]]) -> list[Fault]:
    """The faults of a node; ``running`` are the command lines of its schedulers."""
    try:
        site = sites.recognise(files, wish)
        faults = [
            *_copies(files, site),
            *(
                Fault(
                    f"{site.document}: --{one} keeps kube-scheduler from reading {site.file}",
                    f"take --{one} out, then {site.wish.apply}",
                )
                for one in site.current
                if one != site.flag
            ),
            *_document_faults(files, site),
            *_file_faults(files, site),
        ]
    except SetupRefusedError as error:
        return [error.fault]
    if not faults and site.has_process and not any(map(site.runs_with_it, running)):
        fix = site.afterwards or "read the kubelet's log, and kube-scheduler's in /var/log/pods"
        faults.append(Fault(f"no kube-scheduler that runs on this node has {site.argument}", fix))
    return [Fault(one.what, site.owner or one.fix) for one in faults]


def _copies(files: Mapping[str, str], site: ControlPlaneNode) -> list[Fault]:
    return [
        Fault(f"{path}: the kubelet runs a copy too, as a second kube-scheduler", f"move it out of {sites.static_pods(files)}")
        for path in sites.in_static_pods(files)
        if site.pod is not None and path != site.document and is_scheduler(files[path], path)
    ]  # fmt: skip


def _document_faults(files: Mapping[str, str], site: ControlPlaneNode) -> list[Fault]:
    """The first thing that is missing, as one command brings all; a file that a person has elsewhere is not known.

    A digest that differs only means that the file will be written again.
    """
    document = load(files.get(site.document, ""), site.document)
    asked = [entry for entry in site.entries if entry.is_item or site.pod is None]
    missing = [entry for entry in asked if found_in(document, entry) != [entry.value]]
    if not missing or (site.is_by_hand and site.document not in files):
        return []
    place = ".".join(map(str, missing[0].at))
    return [
        Fault(
            f"{site.document}: {place} lacks {missing[0].value}",
            site.afterwards if site.is_by_hand else site.wish.apply,
        )
    ]


def _file_faults(files: Mapping[str, str], site: ControlPlaneNode) -> list[Fault]:
    if site.file not in files:
        what = f"{site.file} is not there, so kube-scheduler does not ask the extender"
        by_hand = f"write the file that {site.named_by or site.document} names, or take the flag out"
        return [Fault(what, by_hand if site.is_extended else site.wish.apply)]
    if file_faults(load(site.text, site.file), site.minor, site.text):
        fix = "change it by hand" if site.is_extended else f"{site.wish.apply} --replace"
    else:
        fix = site.wish.apply
    document = load(files[site.file], site.file)
    # After a switch by image only kube-scheduler goes on asking so.
    wanted = as_original(site.text) if is_originals(document) else site.text
    found = file_faults(document, site.minor, wanted)
    return [Fault(f"{site.file}: {what}", fix) for what in found]
