"""The command line of gpushare-setup."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.cli import flags
from gpushare.cli.flags import duration, flag, optional, switch
from gpushare.errors import UsageError
from gpushare.model.quantity import MemoryUnit
from gpushare.setup.core.migration import Course
from gpushare.setup.core.scheduler_files import EXTENDER_SCORES, EXTENDER_URL, STRATEGIES, Tls
from gpushare.setup.core.sites import Wish

VERBS: Final = ("plan", "apply", "rollback", "check", "uninstall", "migrate")


_TLS: Final = ("extender-ca-file", "extender-cert-file", "extender-key-file")
_NODE: Final = ("root", "kubernetes", "extender-url", *_TLS, "node-scores", "rke-cluster")
_CLUSTER: Final = ("kubeconfig", "context")
# The flags that each verb reads.
_FLAGS: Final = {
    "plan": (*_NODE, "replace"),
    "apply": (*_NODE, "replace", "timeout"),
    "rollback": ("root", "timeout"),
    "check": (*_NODE, *_CLUSTER),
    "uninstall": (*_NODE, "timeout"),
    "migrate": (*_CLUSTER, "back", "memory-unit"),
}


def _verb(text: str) -> str:
    if text and text not in VERBS:
        raise UsageError(f", not one of {', '.join(VERBS)}")
    return text


def _minor(text: str) -> int | None:
    if not text:
        return None
    found = re.fullmatch(r"v?1\.(\d{1,3})(?:\.\d+)?(?:[-+].*)?", text, re.ASCII)
    if found is None:
        raise UsageError(", not a release of Kubernetes such as 1.30")
    return int(found[1])


def _scores(text: str) -> str | None:
    if text and text not in STRATEGIES:
        raise UsageError(f", not one of {', '.join(STRATEGIES)}")
    return text or None


def _originals_unit(text: str) -> MemoryUnit:
    if text not in ("GiB", "MiB"):
        raise UsageError(", neither GiB nor MiB, which are all that the original's plugin knows")
    return MemoryUnit.parse(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Flags, and what to do."""

    verb: str = flag(
        "verb",
        "plan: show what would change; apply: change it, and wait for kube-scheduler; rollback: undo the last apply; check: show "
        "what is wrong; uninstall: take gpushare out of kube-scheduler; migrate: show how the cluster comes from the original's "
        "programs to gpushare's",
        "",
        _verb,
        is_positional=True,
    )
    root: Path = flag("root", "folder in which the node's files are", "/", Path)
    minor: int | None = flag(
        "kubernetes", "release of Kubernetes, such as 1.30", "", _minor, shown="what the node's files name"
    )
    extender_url: str | None = flag(
        "extender-url",
        "URL of the extender, as kube-scheduler sees it",
        "",
        optional(str),
        shown=f"that of kube-scheduler's file, else {EXTENDER_URL}",
    )
    ca: str = flag(
        "extender-ca-file", "authority of the extender's certificate, a file of the node; with it the URL is https://"
    )
    certificate: str = flag("extender-cert-file", "certificate by which kube-scheduler is known to the extender")
    key: str = flag("extender-key-file", "its key")
    scores: str | None = flag(
        "node-scores",
        "how kube-scheduler chooses among the nodes that fit: extender asks /prioritize; binpack and spread are its own scores by "
        "card memory, which bind more pods a second, and do not score by requests of cpu and memory",
        "",
        _scores,
        shown=f"that of kube-scheduler's file, else {EXTENDER_SCORES}",
    )
    rke_cluster: str = flag(
        "rke-cluster",
        "RKE's cluster.yml, below --root; it is read, and never written",
        "",
        lambda text: str(Path(text).absolute()) if text else "",
    )
    replace: bool = switch("replace", "replace a file of kube-scheduler that was edited, or that is another's")
    timeout: float = flag(
        "timeout", "how long kube-scheduler may take to be healthy; 0 to wait for nothing", "2m", duration()
    )
    kubeconfig: str | None = flag(
        "kubeconfig",
        "for check: look at the cluster's objects, too; for migrate: the cluster, by default kubectl's",
        "",
        optional(str),
        shown="off",
    )
    context: str | None = flag("context", "context of the kubeconfig", "", optional(str), shown="its current one")
    back: bool = switch("back", "for migrate: the way from gpushare's programs to the original's")
    memory_unit: MemoryUnit = flag(
        "memory-unit", "for migrate: --memory-unit of the plugin to come, GiB or MiB", "GiB", _originals_unit
    )

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not self.verb:
            raise UsageError(f"what to do? {', '.join(VERBS)}")
        if bool(self.certificate) != bool(self.key) or (self.certificate and not self.ca):
            raise UsageError("--extender-cert-file and --extender-key-file go together, and with --extender-ca-file")
        if (self.extender_url or "").startswith("https://") != bool(self.ca):
            raise UsageError("--extender-url begins with https:// if --extender-ca-file is there, and only then")

    @property
    def wish(self) -> Wish:
        """The choices that the core needs."""
        tls = Tls(self.ca, self.certificate, self.key) if self.ca else None
        return Wish(
            self.minor, self.extender_url, tls, self.rke_cluster, self.replace, self.scores, flags=self._repeated
        )

    @property
    def _repeated(self) -> str:
        """The flags that choose the node's files and the extender, for a command in an advice."""
        given = {
            "root": "" if self.root == Path("/") else str(self.root),
            "kubernetes": "" if self.minor is None else f"1.{self.minor}",
            "extender-url": self.extender_url,
            "extender-ca-file": self.ca,
            "extender-cert-file": self.certificate,
            "extender-key-file": self.key,
            "node-scores": self.scores,
            "rke-cluster": self.rke_cluster,
        }
        return "".join(f" --{name}={shlex.quote(text)}" for name, text in given.items() if text)

    @property
    def course(self) -> Course:
        """The way of a migration."""
        return Course(self.memory_unit, self.back)


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Arguments:
    """Read the command line. Raises UsageError; argparse ends the program with 2 on an unknown flag, with 0 after the help."""
    what = "Make kube-scheduler of this control plane node ask gpushare's extender; plan a migration from the original's programs."
    # The help of a verb has the flags of that verb.
    verb = next((one for one in argv if one in VERBS), "")
    hidden = {one.name for one in flags.flags_of(Arguments) if verb and one.name not in _FLAGS[verb]}
    return flags.parse(Arguments, f"gpushare-setup {verb}".strip(), what, argv, environment, hidden=hidden)
