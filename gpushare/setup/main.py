"""The verbs of gpushare-setup."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from gpushare.cli.answer_forms import exit_code, on_terminal
from gpushare.setup import cluster_objects, running_scheduler, setup_arguments
from gpushare.setup.core import static_pod
from gpushare.setup.core.command_line import flags_of
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.migration import bound_last, faults_of, fleet_of, is_gpushares, picture, steps
from gpushare.setup.core.plan import Change, installation, node_faults, removal
from gpushare.setup.core.scheduler_files import is_originals
from gpushare.setup.core.sites import (
    CONFIG,
    POLICY,
    ControlPlaneNode,
    named_files,
    recognise,
    scheduler_manifest,
    tls_files,
)
from gpushare.setup.core.yaml_edit import load
from gpushare.setup.journal import Journal
from gpushare.setup.node_files import NodeFiles
from gpushare.setup.running_scheduler import Process
from gpushare.setup.setup_arguments import Arguments


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; exit code 0, 1 if it refuses or fails, 2 for flags that make no sense, 3 if it finds faults."""
    words = sys.argv[1:] if argv is None else argv
    return exit_code(
        lambda: run(setup_arguments.parse(words, {}), on_terminal(sys.stdout)),
        interrupted="interrupted; if an apply had begun, gpushare-setup rollback undoes it\n",
    )


def run(asked: Arguments, out: TextIO) -> int:
    """Do what is asked. Raises GpushareError and OSError."""
    if asked.verb == "migrate":
        return _migrate(asked, out)
    files = NodeFiles(asked.root)
    journal = Journal(files)
    if asked.verb == "check":
        return _check(asked, files, journal, out)
    if asked.verb == "plan":
        site, changes = installation(_texts(asked, files), asked.wish)
        _show(site, changes, out)
        return 0
    with journal.held():
        if asked.verb == "rollback":
            return _rollback(asked, files, journal, out)
        decide = installation if asked.verb == "apply" else removal
        site, changes = decide(_texts(asked, files), asked.wish)
        _show(site, changes, out)
        by_hand = [one for one in changes if site.is_by_hand and one.path == site.document]
        _change(asked, site, [one for one in changes if one not in by_hand], journal, out)
        return 1 if by_hand else 0


def _texts(asked: Arguments, files: NodeFiles) -> dict[str, str]:
    """Each file may name others that have to be read too."""
    named = {asked.rke_cluster}
    while True:
        texts = files.texts(named, tls_files(asked.wish))
        more = named.union(named_files(texts, asked.wish))
        if more == named:
            return texts
        named = more


def _show(site: ControlPlaneNode, changes: Sequence[Change], out: TextIO) -> None:
    out.write(f"{site.name}, Kubernetes 1.{site.minor}\n")
    out.writelines(change.diff() for change in changes)
    if not changes:
        out.write("nothing to change\n")
    elif site.afterwards:
        out.write(f"by hand, afterwards: {site.afterwards}\n")


def _change(asked: Arguments, site: ControlPlaneNode, changes: Sequence[Change], journal: Journal, out: TextIO) -> None:
    pod = site.pod if changes and asked.timeout else None
    before = running_scheduler.processes(asked.root)
    if pod is not None and not running_scheduler.sees_node(asked.root):
        raise SetupRefusedError(
            "no process of kube-scheduler or the kubelet is seen, so a restart would not be either",
            "run gpushare-setup on the node or in a pod with hostPID; --timeout 0 changes the files and waits for nothing",
        )
    is_uninstall = asked.verb == "uninstall"
    try:
        journal.apply(changes, site.afterwards, gives_up=is_uninstall)
    except OSError:
        if journal.is_interrupted():
            journal.rollback()
        raise
    # A person's own file is named before, and after an uninstall too.
    has = site.is_extended or not is_uninstall
    if pod is not None and not _is_restarted(asked, site, before, has=has):
        broken = running_scheduler.processes(asked.root)
        restored, _ = journal.rollback()
        healthy = bool(before.keys() & broken.keys()) or _is_restarted(
            asked, site, broken, has=site.is_extended or not has
        )
        journal.sweep(path for path, was_there in restored if not was_there)
        raise SetupRefusedError(
            f"kube-scheduler was not healthy within {asked.timeout:g} s; every file is as it was, and kube-scheduler is "
            f"{'healthy again' if healthy else 'not healthy yet'}",
            "read its log (crictl logs, /var/log/pods/kube-system_kube-scheduler-*), then run gpushare-setup check",
        )
    journal.complete()
    journal.sweep(change.path for change in changes if change.new is None)
    if changes:
        out.write(
            f"done{', and kube-scheduler is healthy' if pod is not None else ''}; gpushare-setup rollback undoes it\n"
        )


def _is_restarted(asked: Arguments, site: ControlPlaneNode, before: Mapping[Process, object], *, has: bool) -> bool:
    """With the flag, or without it."""
    assert site.pod is not None
    return running_scheduler.is_restarted(
        asked.root, site.pod, before, lambda words: site.runs_with_it(words) == has, asked.timeout
    )


def _rollback(asked: Arguments, files: NodeFiles, journal: Journal, out: TextIO) -> int:
    """A restored manifest restarts kube-scheduler, which is awaited if its processes are seen from here."""
    before, old = running_scheduler.processes(asked.root), _manifest(asked, files)
    sees_node = running_scheduler.sees_node(asked.root)
    restored, afterwards = journal.rollback()
    out.writelines(f"{'restored' if was_there else 'removed'} {path}\n" for path, was_there in restored)
    out.write(f"by hand, afterwards: {afterwards}\n" if afterwards else "")
    # A folder may be in place of a removed file now, so the path is known from before.
    new = _manifest(asked, files) if old is None else (old[0], files.text(old[0]) or "")
    if new is None or new == old or not asked.timeout:
        return 0
    if not sees_node:
        out.write(
            "no process of kube-scheduler or the kubelet is seen from here: see that it runs (kubectl -n kube-system get pods)\n"
        )
        return 0
    pod = static_pod.read(new[1], new[0])
    wanted = {flag: pod.flags.get(flag) for flag in (CONFIG, POLICY)}

    def is_right(words: tuple[str, ...]) -> bool:
        found = flags_of(words[1:])
        return {flag: found.get(flag) for flag in wanted} == wanted

    is_well = running_scheduler.is_restarted(asked.root, pod, before, is_right, asked.timeout)
    journal.sweep(path for path, was_there in restored if not was_there)
    if not is_well:
        raise SetupRefusedError(
            f"every file is as it was, but kube-scheduler was not healthy within {asked.timeout:g} s",
            "read its log (crictl logs, /var/log/pods/kube-system_kube-scheduler-*), then run gpushare-setup check",
        )
    out.write("done, and kube-scheduler is healthy\n")
    return 0


def _manifest(asked: Arguments, files: NodeFiles) -> tuple[str, str] | None:
    """Path and text of kube-scheduler's manifest; None if there is none that can be read."""
    try:
        texts = _texts(asked, files)
        path = scheduler_manifest(texts)
        static_pod.read(texts[path], path)
    except (SetupRefusedError, KeyError):
        return None
    return path, texts[path]


def _migrate(asked: Arguments, out: TextIO) -> int:
    """Read, decide and print: all writes are commands for a person."""
    kubeconfig = asked.kubeconfig or os.environ.get("KUBECONFIG")  # noqa: TID251  # as kubectl
    seen = asyncio.run(cluster_objects.survey(kubeconfig, asked.context))
    fleet, extender = fleet_of(seen.nodes, seen.pods), is_gpushares(seen.extender, bound_last(seen.pods))
    out.writelines(f"{line}\n" for line in picture(fleet, extender))
    faults = faults_of(fleet, extender, asked.course)
    out.writelines(f"{fault}\n" for fault in faults)
    if faults:
        return 3
    commands = list(steps(fleet, extender, is_gpushares(seen.plugin), asked.course))
    out.writelines(f"{number}. {command}\n" for number, command in enumerate(commands, 1))
    if not commands:
        out.write(f"good: all nodes have {'the original' if asked.back else 'gpushare'}'s plugin\n")
    return 0


def _check(asked: Arguments, files: NodeFiles, journal: Journal, out: TextIO) -> int:
    faults, texts = [journal.INTERRUPTED] if journal.is_interrupted() else [], {}
    try:
        texts = _texts(asked, files)
        faults += node_faults(texts, asked.wish, running_scheduler.processes(asked.root).values())
    except SetupRefusedError as error:
        faults.append(error.fault)
    if asked.kubeconfig is not None:
        faults += asyncio.run(cluster_objects.look(asked.kubeconfig, asked.context))
    out.writelines(f"{fault}\n" for fault in faults)
    if faults:
        return 3
    site = recognise(texts, asked.wish)
    unseen = "" if site.has_process else f", if this was run since: {site.restart}"
    if is_originals(load(texts[site.file], site.file)):
        unseen += " (only to filter and bind, as the original's; apply adds the choice of nodes and of pods to preempt)"
    out.write(f"good: kube-scheduler asks gpushare's extender{unseen}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
