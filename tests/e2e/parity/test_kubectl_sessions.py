"""The parts of kubectl's output that a comparison leaves out."""

from __future__ import annotations

import pytest

from e2e.parity.kubectl_sessions import normalised

_ENDED = (
    'I1128 16:14:00.272984   26599 reflector.go:664] "Warning: watch ended with error" '
    'err="an error on the server (\\"unable to decode an event from the watch stream: context canceled\\")"\n'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_ENDED, ""),
        (f"job.batch/once condition met\n{_ENDED}done\n", "job.batch/once condition met\ndone\n"),
        (
            "E1128 16:14:00.272984 26599 memcache.go:265] no server\n",
            "E1128 16:14:00.272984 26599 memcache.go:265] no server\n",
        ),
    ],
)
def test_remarks_about_an_ended_watch_are_left_out(text: str, expected: str) -> None:
    """A line that client-go logs when a watch ends is left out; its errors and kubectl's own lines stay."""
    assert normalised(text) == expected
