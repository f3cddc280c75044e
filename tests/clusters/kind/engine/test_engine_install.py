"""Promises of clusters.kind.engine.engine_install, with a stand-in for apt-get that records its calls."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from clusters.kind.engine.engine_install import PACKAGES, install
from clusters.provider import ClusterError

APT = """#!/bin/sh
echo "$*" >> "$APT_CALLS"
[ -x "$POLICY" ] && "$POLICY" docker start; echo "service: $?" >> "$APT_CALLS"
[ "$1" = install ] && [ -n "$APT_FAILS" ] && { echo "E: Unable to locate package" >&2; exit 100; }
exit 0
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The stand-in first on PATH."""
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin" / "apt-get"
    apt.write_text(APT)
    apt.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "APT_CALLS": str(tmp_path / "calls"),
        "POLICY": str(tmp_path / "policy-rc.d"),
    }


def test_the_packages_are_installed_and_no_service_starts(environment: dict[str, str]) -> None:
    """The lists are renewed first; the policy that keeps services from starting is gone afterwards."""
    out = io.StringIO()
    install(environment, out, Path(environment["POLICY"]))
    calls = Path(environment["APT_CALLS"]).read_text().splitlines()

    assert calls[:2] == ["update", "service: 101"]
    assert calls[2:4] == [f"install --yes --no-install-recommends {' '.join(PACKAGES)}", "service: 101"]
    assert not Path(environment["POLICY"]).exists()
    assert "installing docker.io" in out.getvalue()


def test_a_policy_of_the_user_stays(environment: dict[str, str]) -> None:
    """To the byte."""
    policy = Path(environment["POLICY"])
    policy.write_text("#!/bin/sh\nexit 7\n")
    install(environment, io.StringIO(), policy)

    assert policy.read_text() == "#!/bin/sh\nexit 7\n"


def test_a_failed_installation_shows_the_output_of_apt(environment: dict[str, str]) -> None:
    """A failed installation shows the output of apt and removes the policy file."""
    with pytest.raises(ClusterError, match=r"(?s)ended with 100.*Unable to locate"):
        install({**environment, "APT_FAILS": "1"}, io.StringIO(), Path(environment["POLICY"]))

    assert not Path(environment["POLICY"]).exists()
