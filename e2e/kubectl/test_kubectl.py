"""Users' work with kubectl, a case each: ``commands.yaml``. Both clusters must answer with the same text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.kubectl.sessions import Session, Step, difference
from e2e.parity import differences

_CASES: Final = yaml.safe_load((Path(__file__).parent / "commands.yaml").read_text())


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["case"])
async def test_kubectl_says_the_same(sessions: tuple[Session, Session], namespace: str, case: dict[str, Any]) -> None:
    """The promise of the case: stdout, stderr and exit code of each command are equal, except for the texts in ``texts``."""
    rows, found = differences.load(), []
    for step in map(Step.of, case["steps"]):
        real, embedded = await asyncio.gather(*(step.on(session, namespace) for session in sessions))
        text = difference(step.run, real, embedded)
        if step.differs:
            assert step.differs in rows, f"differences.yaml has no row {step.differs!r}"
            assert text, f"the sides agree now on kubectl {step.run}: remove {step.differs!r} from the step"
        elif text:
            found.append(text)
    assert not found, f"{case['promise']}:\n" + "\n".join(found)
