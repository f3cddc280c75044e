"""The programs under test, as data: argv, environment, ready check, abilities. ``e2e/targets/*.yaml``, explained in its README."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
import yaml

from clusters.provider import DEVICE_PLUGIN, EXTENDER, ClusterError, NodeSpec, read_yaml

_ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = _ROOT / "e2e" / "targets"
INSPECT: Final = "inspect"
KUBECTL: Final = "kubectl"
PROGRAMS: Final = frozenset({EXTENDER, DEVICE_PLUGIN, INSPECT, KUBECTL})
# Beyond the contract of the original: a case that needs one is not applicable to a target that does not declare it.
Capability = Literal[
    "binpack", "by-hand", "call", "cards-annotation", "client-certificates", "explain", "guarded", "health",
    "held-till-boot", "kubelet-book", "limit-device", "manifests", "memory-limit", "node-condition", "pod-resources", "policies",
    "preempt", "prioritize", "probes", "repair", "roles", "room", "several-cards", "slots", "takeover", "unadmitted",
    "unresolvable", "usage", "wishes",
]  # fmt: skip
CAPABILITIES: Final[frozenset[str]] = frozenset(get_args(Capability))
# The settings of a program that cases need. A target has its own words for each of them, or none.
Option = Literal[
    "audit-interval", "cdi-root", "cgroup-root", "client-ca-file", "cool-down", "delete-unadmitted", "device-id-strategy",
    "device-list-strategy", "evict-overusers", "eviction-grace", "expected-pods", "guarded", "health", "max-ids", "memory-limit",
    "memory-limit-hook", "memory-limit-slack", "memory-unit", "metrics-address", "mode", "overuse-after", "overuse-tolerance",
    "policy", "proc-root", "repair", "slots", "survey-interval", "sys-root", "tls-cert-file", "tls-private-key-file", "usage",
    "usage-interval",
]  # fmt: skip
OPTIONS: Final[frozenset[str]] = frozenset(get_args(Option))


class UnspeltOptionError(ClusterError):
    """A case needs an option for which the target has no words."""


class Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program: words in braces are filled in when it is started."""

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    environment: dict[str, str] = {}
    ready: Annotated[str, msgspec.Meta(pattern="^(/.*)?$")] = ""
    """The path that answers 200 once an extender is up; "" if it is up once its port takes connections."""
    path: Annotated[str, msgspec.Meta(pattern="^(/.*)?$")] = ""
    """The path below which an extender has its verbs."""
    resource: str = ""
    """The resource that a node shows once its device plugin is up."""
    account: str = ""
    """The ServiceAccount that it runs with, ``namespace/name``; "" for an administrator's rights."""
    fixed_folder: Annotated[str, msgspec.Meta(pattern="^(/.*)?$")] = ""
    """The only folder of sockets that a device plugin knows; the node's is mounted there, for this program alone."""
    flags: dict[Option, tuple[str, ...]] = {}
    """The words of each option; ``{value}`` is what a case asks for. No words: the program always acts so."""

    def command(self, **values: str) -> tuple[list[str], dict[str, str]]:
        """Its argv and environment with the words in braces filled in. Raises ClusterError for an unknown word."""
        try:
            argv = [word.format(**values) for word in self.argv]
            environment = {name: value.format(**values) for name, value in self.environment.items()}
        except (KeyError, IndexError, ValueError) as error:
            raise ClusterError(f"{self.argv[0]}: the target names {error}, known are {', '.join(values)}") from error
        return argv, environment

    def words(self, options: Mapping[str, str]) -> tuple[str, ...]:
        """The flags of these options. Raises UnspeltOptionError for those without words, and ClusterError for unknown ones."""
        if unknown := options.keys() - OPTIONS:
            raise ClusterError(f"{', '.join(sorted(unknown))} is no option; there is: {', '.join(sorted(OPTIONS))}")
        spelt = {str(name): words for name, words in self.flags.items()}
        if missing := options.keys() - spelt.keys():
            raise UnspeltOptionError(f"{self.argv[0]} has no flag for {', '.join(sorted(missing))}")
        return tuple(word.replace("{value}", value) for name, value in options.items() for word in spelt[name])

    def with_options(self, options: Mapping[str, str]) -> Program:
        """The program with these options. Raises as ``words``."""
        return msgspec.structs.replace(self, argv=(*self.argv, *self.words(options)))


class Differences(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The known ways to depart from the contract that a target may declare; each other departure is a failure."""

    refused_bind: Literal["200", "500"] = "200"
    """The status of a refused bind, with the reason in ``Error``."""
    filter_nodes: Literal["names", "full"] = "names"
    """A question with names is answered with names, or with full Nodes beside them."""
    pods_without_memory: Literal["pass", "refused"] = "pass"
    """A pod that asks for no card memory passes on each node, or is refused on nodes without cards."""
    bind_writes: Literal["one", "two"] = "one"
    """A bind writes node and annotations together, or the annotations first."""
    repeated_bind: Literal["success", "refused"] = "success"
    """A bind that is ordered again on the pod's node is a success, or the API server's refusal."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The programs of one implementation, of which any may be absent."""

    name: str
    extender_or_none: Program | None = msgspec.field(name=EXTENDER, default=None)
    device_plugin_or_none: Program | None = msgspec.field(name=DEVICE_PLUGIN, default=None)
    inspect_or_none: Program | None = msgspec.field(name=INSPECT, default=None)
    kubectl_or_none: Program | None = msgspec.field(name=KUBECTL, default=None)
    capabilities: frozenset[Capability] = frozenset()
    """The abilities beyond the original's contract that it claims; ``e2e/targets/README.md`` explains each."""
    differences: Differences = Differences()
    scheduler: str = ""
    """A KubeSchedulerConfiguration, path from the top of the checkout; "" for ours, less the verbs that are not declared."""
    slots_target: str = ""
    """The target that is the same programs with each node in slots mode."""
    roles: tuple[str, ...] = ()
    """Manifests of the ServiceAccounts of its programs and of their rights; paths from the top of the checkout."""
    policies: tuple[str, ...] = ()
    """Manifests of admission policies; an API server without such a kind runs without them."""
    policy_probe: dict[str, str] = {}
    """The check that the policies act: a pod that ``asks`` for one resource ``gets`` another."""

    @property
    def extender(self) -> Program:
        """Raises ClusterError if it has none."""
        return self._program(EXTENDER, self.extender_or_none)

    @property
    def device_plugin(self) -> Program:
        """Raises ClusterError if it has none."""
        return self._program(DEVICE_PLUGIN, self.device_plugin_or_none)

    @property
    def inspect(self) -> Program:
        """Raises ClusterError if it has none."""
        return self._program(INSPECT, self.inspect_or_none)

    @property
    def kubectl(self) -> Program:
        """Raises ClusterError if it has none."""
        return self._program(KUBECTL, self.kubectl_or_none)

    @property
    def programs(self) -> frozenset[str]:
        """Which programs it has."""
        known = {EXTENDER: self.extender_or_none, DEVICE_PLUGIN: self.device_plugin_or_none}
        known |= {INSPECT: self.inspect_or_none, KUBECTL: self.kubectl_or_none}
        return frozenset(name for name, program in known.items() if program is not None)

    @property
    def claims(self) -> frozenset[str]:
        """The abilities that cases may count on: its programs, and its capabilities."""
        return self.programs | self.capabilities

    def with_extender_options(self, options: Mapping[str, str]) -> Target:
        """The target with these options of its extender. Raises as ``Program.words``."""
        return msgspec.structs.replace(self, extender_or_none=self.extender.with_options(options))

    def spelt(self, node: NodeSpec) -> NodeSpec:
        """The node with its plugin's options as words. Raises as ``Program.words``."""
        if not node.plugin_options or self.device_plugin_or_none is None:
            return node
        arguments = (*self.device_plugin.words(node.plugin_options), *node.plugin_arguments)
        return msgspec.structs.replace(node, plugin_arguments=arguments, plugin_options={})

    def role_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``roles``. Raises ClusterError."""
        return self._manifests("roles", self.roles)

    def policy_manifests(self) -> list[dict[str, Any]]:
        """The objects in ``policies``. Raises ClusterError."""
        return self._manifests("policies", self.policies)

    def scheduler_configuration(self, url: str) -> dict[str, Any]:
        """Its KubeSchedulerConfiguration, with the extender at ``url``; no extender if it has none. Raises ClusterError."""
        path = self.scheduler or str(SCHEDULER_CONFIG.relative_to(_ROOT))
        (configuration,) = self._manifests("scheduler", (path,))
        if self.extender_or_none is None:
            return {key: value for key, value in configuration.items() if key != "extenders"}
        extenders = [{**extender, "urlPrefix": url} for extender in configuration.get("extenders", ())]
        if not self.scheduler:
            undeclared = {f"{verb}Verb" for verb in ("prioritize", "preempt") if verb not in self.capabilities}
            undeclared |= {"weight"} if "prioritizeVerb" in undeclared else set()
            extenders = [{key: value for key, value in one.items() if key not in undeclared} for one in extenders]
        return {**configuration, "extenders": extenders}

    @property
    def users(self) -> dict[str, str]:
        """The user of each program that has an account of its own, with the program's name."""
        programs = {EXTENDER: self.extender_or_none, DEVICE_PLUGIN: self.device_plugin_or_none}
        return {
            f"system:serviceaccount:{one.account.replace('/', ':')}": name
            for name, one in programs.items()
            if one is not None and one.account
        }

    def _program(self, name: str, found: Program | None) -> Program:
        if found is None:
            raise ClusterError(f"target {self.name} has no {name}")
        return found

    def _manifests(self, what: str, paths: tuple[str, ...]) -> list[dict[str, Any]]:
        try:
            texts = [(_ROOT / path).read_text(encoding="utf-8") for path in paths]
            return [
                msgspec.convert(item, dict[str, Any]) for text in texts for item in yaml.safe_load_all(text) if item
            ]
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ClusterError(f"the {what} of target {self.name}: {error}") from error


SCHEDULER_CONFIG: Final = Path(__file__).parent / "deploy" / "base" / "scheduler-config.yaml"


def load_target(name_or_path: str, environment: Mapping[str, str] | None = None) -> Target:
    """A target by name (a file in e2e/targets) or by path; ``${NAME}`` in it is a variable of the environment.

    Raises ClusterError, which names variables that are not set, and the line of any other fault.
    """
    path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        raise ClusterError(f"target {name_or_path!r} is neither a file nor one of: {known}")
    target = read_yaml(path, Target, "a target", environment or {})
    if not target.programs:
        raise ClusterError(f"{path}: not a target: it names no program")
    return target
