"""A target file is read strictly: a fault is an error that names the file and its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.provider import ClusterError
from clusters.targets import FOLDER, load_target

Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_shipped_targets_have_their_manifests(name: str) -> None:
    """Each target of the repository names itself and manifests that exist."""
    target = load_target(name)
    assert target.name == name
    assert target.role_manifests()
    assert target.policy_manifests()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda target: target["extender"].update(argv="gpushare-extender"), r"\$.extender.argv"),
        (lambda target: target["extender"].update(argv=[]), r"\$.extender.argv"),
        (lambda target: target["extender"].update(argv=[["nested"]]), r"\$.extender.argv\[0\]"),
        (lambda target: target["inspect"].update(environment=["A=b"]), r"\$.inspect.environment"),
        (lambda target: target["inspect"].update(environment={"A": ["b"]}), r"\$.inspect.environment"),
        (lambda target: target["extender"].update(readiness="/readyz"), "readiness"),
        (lambda target: target["extender"].update(ready=["/readyz"]), r"\$.extender.ready"),
        (lambda target: target["device_plugin"].update(account={"a": "b"}), r"\$.device_plugin.account"),
        (lambda target: target.pop("device_plugin"), "device_plugin"),
        (lambda target: target.pop("name"), "name"),
        (lambda target: target.update(roles="clusters/deploy/base/extender-rbac.yaml"), r"\$.roles"),
        (lambda target: target.update(polices=[]), "polices"),
        (lambda target: target.update(policy_probe="asks"), r"\$.policy_probe"),
        (lambda target: target.update(extender=None), r"\$.extender"),
    ],
)
def test_malformed_target_names_the_place(tmp_path: Path, change: Change, place: str) -> None:
    """An entry that is missing, misspelt or of another type is refused before anything is started."""
    document = yaml.safe_load((FOLDER / "gpushare.yaml").read_text())
    change(document)
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ClusterError, match=f"t.yaml: not a target: .*{place}"):
        load_target(str(path))


@pytest.mark.parametrize("text", ["", "[]", "- a", "text", "{", "\0", "a: *b"])
def test_a_file_that_is_no_target_is_refused(tmp_path: Path, text: str) -> None:
    """A file of another content is an error that names it, not a traceback."""
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(ClusterError, match=r"t\.yaml: not a target"):
        load_target(str(path))


@pytest.mark.parametrize("text", ["- a list", "text", "{"])
def test_manifests_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    """A manifest that is no object is an error that names the target."""
    (tmp_path / "m.yaml").write_text(text)
    document = yaml.safe_load((FOLDER / "gpushare.yaml").read_text()) | {"roles": [str(tmp_path / "m.yaml")]}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(document))
    target = load_target(str(tmp_path / "t.yaml"))
    with pytest.raises(ClusterError, match="the roles of target gpushare"):
        target.role_manifests()
