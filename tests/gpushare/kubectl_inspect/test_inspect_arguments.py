"""Promises of the command line."""

from __future__ import annotations

from typing import Any

import pytest

from gpushare.cli.kubectl_flags import ApiFlags
from gpushare.kubectl_inspect.inspect_arguments import Arguments, parse


def parsed(*words: str) -> Arguments:
    return parse("/usr/local/bin/kubectl-inspect-gpushare", words)


API = ApiFlags(kubeconfig="f", context="c", request_timeout=5)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-d=F"], {}),
        (["--d"], {"details": True}),
        (["-logtostderr", "-v=5", "-d"], {"details": True}),
        (["--stderrthreshold", "INFO", "--vmodule=a=1", "-d=true", "-log_dir=/tmp"], {"details": True}),
        (["-d=false", "-d"], {"details": True}),
        (["node1", "-d"], {"details": True, "nodes": ("node1",)}),
        (["-d", "--", "node1"], {"details": True, "nodes": ("node1",)}),
        (["--kubeconfig", "f", "--context", "c", "--request-timeout", "5s"], {"api": API}),
        (["-kubeconfig=f", "-context=c", "-request-timeout=5000ms"], {"api": API}),
        (["-oyaml"], {"output": "yaml"}),
        (["--output", "json", "-n", "team"], {"output": "json", "namespace": "team"}),
        (["--namespace=team", "-A"], {"namespace": "team", "all_namespaces": True}),
        (["-namespace", "team", "--all-namespaces=false"], {"namespace": "team"}),
        (["-n", ""], {}),
        (["-no-headers=true"], {"no_headers": True}),
        (["--no-headers=false"], {}),
        (["--sort-by", "{.allocated}"], {"sort_by": "allocated"}),
        (["-dA"], {"details": True, "all_namespaces": True}),
        (["-dnteam"], {"details": True, "namespace": "team"}),
        (["-dojson"], {"details": True, "output": "json"}),
    ],
)
def test_flags_are_as_kubectls_and_as_gos(words: list[str], expected: dict[str, Any]) -> None:
    """Each in kubectl's spellings and in every one of Go's flag package; glog's flags are read and without effect."""
    assert parsed(*words) == Arguments(**expected)


def test_what_o_name_printed_is_taken_back() -> None:
    """Each node once, as NAME or TYPE/NAME, with flags between."""
    words = ["node/a", "-o", "wide", "nodes/b", "no/c", "Node/d", "--no-headers", "node.v1./e", "f", "node/a"]

    assert parsed(*words).nodes == ("a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize(("text", "seconds"), [("", None), ("0", None), ("0s", None), ("30", 30)])
def test_zero_is_no_limit(text: str, seconds: float | None) -> None:
    """A request timeout of zero is no limit, as for kubectl."""
    assert parsed(f"--request-timeout={text}").api.request_timeout == seconds


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--no-such-flag"], "unrecognized arguments"),
        (["--kube", "f"], "unrecognized arguments"),
        (["-d=maybe"], "argument -d: 'maybe', neither true nor false"),
        (["pod/a"], "'pod/a': 'pod' is none of the types node"),
        (["node/"], "'node/', not TYPE/NAME"),
        (["node.example.com/a"], "'node.example.com' is none of the types node"),
        (["node/a/b"], "'node/a/b', not TYPE/NAME"),
        (["-o", "xml"], "invalid choice: 'xml'"),
        (["--request-timeout=soon"], "--request-timeout: 'soon', not a duration such as 5s, 1m30s or 0"),
        (["-sort-by", "cards"], "--sort-by: 'cards', no field of a node; there are name, address"),
    ],
)
def test_nonsense_ends_with_2(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The usage goes to stderr, and the flag with what it takes."""
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    said = capsys.readouterr()

    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith("usage: kubectl inspect gpushare")
    assert says in said.err


@pytest.mark.parametrize("flag", ["-h", "--help", "-help"])
@pytest.mark.parametrize(
    ("program", "name"), [("/bin/kubectl-inspect-gpushare", "kubectl inspect gpushare"), ("/opt/inspect", "inspect")]
)
def test_help_names_the_command_as_it_is_typed(
    program: str, name: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of kubectl there, or the program's own name."""
    with pytest.raises(SystemExit) as ended:
        parse(program, [flag])

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} ")
