"""The start of the device plugin in the image of simulated cards."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from clusters.kind.program_images.build import CHECKOUT

PROGRAM = CHECKOUT / "clusters/kind/program_images/files/simulated_plugin.py"


def test_it_refuses_where_a_real_driver_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The simulated plugin refuses a node with a real driver even if FAKENVML_STATE is set; its cards would not exist there."""
    monkeypatch.setenv("FAKENVML_STATE", str(tmp_path / "state"))
    main = runpy.run_path(str(PROGRAM))["main"]

    assert main(tmp_path) == 1
    assert "a real NVIDIA driver" in capsys.readouterr().err
