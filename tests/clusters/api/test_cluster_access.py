"""How a kubeconfig is found and read."""

from pathlib import Path

import pytest
import trustme
import yaml

from clusters.api.cluster_access import merged, trusting
from clusters.api.connection import Connection


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
    servers = {name: cluster["server"] for name, cluster in whole["clusters"].items()}
    assert servers == {"same": "http://one", "other": "http://three"}
    assert whole["current-context"] == "other"
    assert Connection.from_kubeconfig(files).url == "http://three"
    assert Connection.from_kubeconfig(files, "same").url == "http://one"


def test_a_cluster_authority_may_have_comments_in_any_language() -> None:
    """A bundle of certificates with accents between them is read."""
    authority = "# Autorité\n".encode() + trustme.CA().cert_pem.bytes()
    assert len(trusting(authority, b"", b"", insecure=False).get_ca_certs()) == 1


def test_paths_stay_relative_to_their_own_file(tmp_path: Path) -> None:
    """Each file of several may lie in a folder of its own; a whole path stays as it is."""
    files = [
        written(tmp_path / "a" / "config", "a", tokenFile="/var/token"),
        written(tmp_path / "b" / "config", "b", tokenFile="token"),
    ]
    whole = merged(files)
    assert [whole["clusters"][name]["certificate-authority"] for name in "ab"] == [
        str(tmp_path / "a" / "ca.crt"),
        str(tmp_path / "b" / "ca.crt"),
    ]
    users = {name: user["tokenFile"] for name, user in whole["users"].items()}
    assert users == {"a": "/var/token", "b": str(tmp_path / "b" / "token")}


def test_without_any_file_the_error_names_them(tmp_path: Path) -> None:
    """No file is there, so nothing is asked of a server that was not meant."""
    with pytest.raises(FileNotFoundError, match="there is no kubeconfig at"):
        merged([tmp_path / "none"])
