"""A target file is read strictly: a fault is an error that names the file and its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusters.deploy.render import BASE
from clusters.provider import ClusterError, NodeSpec
from clusters.targets import FOLDER, Program, UnspeltOptionError, load_target

# Programs that the user brings.
BROUGHT = {
    f"{name}_{program}": "/bin/true"
    for name in ("GPUSHARE_ORIGINAL", "HAMI_STYLE")
    for program in ("EXTENDER", "DEVICE_PLUGIN", "INSPECT")
}


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_shipped_targets_have_their_manifests(name: str) -> None:
    """Each target of the repository is read by name and by path, and names itself and manifests that exist."""
    target = load_target(name, BROUGHT)
    assert load_target(str(FOLDER / f"{name}.yaml"), BROUGHT) == target
    assert target.name == name
    assert bool(target.role_manifests()) == bool(target.roles)
    assert bool(target.policy_manifests()) == bool(target.policies)
    assert not target.slots_target or load_target(target.slots_target)


def test_an_error_names_the_line_of_the_fault(tmp_path: Path) -> None:
    """The line of the wrong entry is beside its path, also if the entry is a key or an element of a list."""
    good = "name: x\nextender:\n  argv: [x]\n"
    faults = {
        "  flags:\n    mode: []\n    mod: []\n": 6,
        "  readiness: x\n": 4,
        "inspect:\n  argv: x\n": 5,
        "capabilities:\n  - health\n  - helth\n": 6,
        "differences:\n  refused-bind: 9\n": 5,
        "device_plugin:\n  resource: x\n": 5,
    }
    for fault, line in faults.items():
        path = tmp_path / "t.yaml"
        path.write_text(good + fault)
        with pytest.raises(ClusterError, match=rf", line {line}$"):
            load_target(str(path))


@pytest.mark.parametrize(
    ("name", "variable"), [("original", "GPUSHARE_ORIGINAL_INSPECT"), ("hami-style", "HAMI_STYLE")]
)
def test_variables_that_are_not_set_are_named(name: str, variable: str) -> None:
    """A target of programs that the user brings names all variables that are missing, before anything is started."""
    with pytest.raises(ClusterError, match=variable):
        load_target(name, {"GPUSHARE_ORIGINAL_EXTENDER": "/bin/true"})


def test_a_target_may_be_an_extender_alone() -> None:
    """The other programs are absent, and to ask for one is an error that names it; a target without programs is refused."""
    target = load_target("hami-style", BROUGHT)
    assert target.programs == {"extender"}
    assert target.claims == {"extender"}
    with pytest.raises(ClusterError, match="hami-style has no device_plugin"):
        _ = target.device_plugin


def test_options_are_spelt_as_the_target_spells_them() -> None:
    """A value is filled in, words of no value stay, and an option that is always on has no words."""
    program = Program(("x",), flags={"memory-unit": ("-u", "{value}"), "usage": ("--usage",), "health": ()})
    assert program.words({"memory-unit": "MiB", "usage": "", "health": "true"}) == ("-u", "MiB", "--usage")
    assert program.with_options({"memory-unit": "{GiB}"}).argv == ("x", "-u", "{GiB}")
    with pytest.raises(UnspeltOptionError, match="x has no flag for cool-down, mode"):
        program.words({"mode": "slots", "cool-down": "1s"})
    with pytest.raises(ClusterError, match="memory_unit is no option"):
        program.words({"memory_unit": "MiB"})


def test_a_nodes_options_become_the_plugins_words() -> None:
    """They come before the words that the node has by itself."""
    node = NodeSpec("a", plugin_options={"memory-unit": "MiB"}, plugin_arguments=("-v",))
    assert load_target("gpushare").spelt(node).plugin_arguments == ("--memory-unit=MiB", "-v")
    with pytest.raises(UnspeltOptionError):
        load_target("original", BROUGHT).spelt(NodeSpec("a", plugin_options={"mode": "slots"}))


def test_a_scheduler_asks_no_verb_that_is_not_declared() -> None:
    """Our configuration is the target's, less prioritize and preempt unless it has them."""
    (ours,) = load_target("gpushare").scheduler_configuration("http://x")["extenders"]
    (others,) = load_target("original", BROUGHT).scheduler_configuration("http://x")["extenders"]
    assert ours.keys() - others.keys() == {"prioritizeVerb", "preemptVerb", "weight"}
    assert others["urlPrefix"] == ours["urlPrefix"] == "http://x"
    assert (others["filterVerb"], others["bindVerb"]) == ("filter", "bind")


def test_a_target_may_bring_its_scheduler_configuration(tmp_path: Path) -> None:
    """Its verbs stay as they are; a plugin alone is asked by no scheduler."""
    (tmp_path / "s.yaml").write_text("{kind: K, extenders: [{urlPrefix: x, preemptVerb: p}]}")
    text = f"{{name: x, scheduler: {tmp_path}/s.yaml, extender: {{argv: [x]}}}}"
    (tmp_path / "t.yaml").write_text(text)
    (tmp_path / "p.yaml").write_text(text.replace("extender", "device_plugin"))
    brought = load_target(str(tmp_path / "t.yaml")).scheduler_configuration("http://y")
    assert brought == {"kind": "K", "extenders": [{"urlPrefix": "http://y", "preemptVerb": "p"}]}
    assert load_target(str(tmp_path / "p.yaml")).scheduler_configuration("") == {"kind": "K"}


def test_the_policies_of_a_target_are_those_of_the_base() -> None:
    """In slots mode, and the policy of slots mode after them."""
    ids, slots = load_target("gpushare"), load_target("gpushare-slots")
    base = {path.name for path in BASE.glob("*-policy.yaml")}

    assert {Path(name).name for name in ids.policies} == base
    assert slots.policies[:-1] == ids.policies
    assert (dict(ids.policy_probe), list(slots.policy_probe)) == ({}, ["asks", "gets"])
