"""A scheduler extender for tests: a real HTTP server on loopback with answers that a test decides."""

from __future__ import annotations

from e2e.parity.recording_extender import Answer, Call, RecordingExtender, Respond

__all__ = ["Answer", "Call", "LocalExtender", "Respond", "accept_all"]


async def accept_all(call: Call) -> Answer:
    """Lets every node through and reports every bind as done."""
    if call.verb == "filter":
        return Answer({"NodeNames": call.message["NodeNames"], "Error": ""})
    return Answer({"Error": ""})


class LocalExtender(RecordingExtender):
    """The recording extender as the tests of our own scheduler know it."""

    @property
    def url(self) -> str:
        """Plain, whatever it speaks: the tests of TLS write their own address."""
        return f"http://127.0.0.1:{self.port}/gpushare-scheduler"
