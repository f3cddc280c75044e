from pathlib import Path

import pytest
import yaml

from clusters.api.connection import Connection
from clusters.api.kubeconfig_merge import merged


def written(path: Path, name: str, *, current: str = "", **user: str) -> Path:
    """A kubeconfig with one part of each kind, all of one name."""
    document = {
        "clusters": [{"name": name, "cluster": {"server": f"http://{path.stem}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": current,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def test_several_files_are_one_kubeconfig(tmp_path: Path) -> None:
    """The first file with a name counts, also for the current context; a missing file is passed over."""
    files = [
        tmp_path / "none",
        written(tmp_path / "one", "same"),
        written(tmp_path / "two", "same", current="other"),
        written(tmp_path / "three", "other", current="same"),
    ]
    whole = merged(files)
    servers = {item["name"]: item["cluster"]["server"] for item in whole["clusters"]}
    assert servers == {"same": "http://one", "other": "http://three"}
    assert whole["current-context"] == "other"
    assert Connection.from_kubeconfig(files).url == "http://three"
    assert Connection.from_kubeconfig(files, "same").url == "http://one"


def test_paths_stay_relative_to_their_own_file(tmp_path: Path) -> None:
    """Each file of several may lie in a folder of its own; a whole path stays as it is."""
    files = [
        written(tmp_path / "a" / "config", "a", tokenFile="/var/token"),
        written(tmp_path / "b" / "config", "b", tokenFile="token"),
    ]
    whole = merged(files)
    assert sorted(item["cluster"]["certificate-authority"] for item in whole["clusters"]) == [
        str(tmp_path / "a" / "ca.crt"),
        str(tmp_path / "b" / "ca.crt"),
    ]
    users = {item["name"]: item["user"]["tokenFile"] for item in whole["users"]}
    assert users == {"a": "/var/token", "b": str(tmp_path / "b" / "token")}


def test_without_any_file_the_error_names_them(tmp_path: Path) -> None:
    """No file is there, so nothing is asked of a server that was not meant."""
    with pytest.raises(FileNotFoundError, match="there is no kubeconfig at"):
        merged([tmp_path / "none"])
