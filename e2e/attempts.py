"""Requests that admission should accept or refuse, as data: each has a name, and is sent as a dry run, so it leaves nothing."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.api_client import STRATEGIC_MERGE_PATCH, ApiClient, ApiError

_LOG = logging.getLogger(__name__)

# A refusal names its policy before the reason.
_REFUSAL: Final = re.compile(r"^.* denied request: ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request; words in braces of ``path`` are filled in when it is sent.

    ``reason`` is what the refusal must say, as a regular expression; "" for a request that must be accepted.
    """

    name: str
    method: str
    path: str
    body: Any
    reason: str = ""

    async def send(self, api: ApiClient, **places: str) -> str:
        """The reason of the refusal by an admission policy; "" if the request was accepted. Raises ApiError for another refusal."""
        content_type = STRATEGIC_MERGE_PATCH if self.method == "PATCH" else "application/json"
        try:
            await api.request(
                self.method,
                self.path.format(**places),
                body=self.body,
                params={"dryRun": "All"},
                content_type=content_type,
            )
        except ApiError as error:
            if "ValidatingAdmissionPolicy" not in error.message:
                raise
            return _REFUSAL.sub("", error.message)
        return ""

    async def check(self, api: ApiClient, **places: str) -> None:
        """Send it, log the answer, and compare it with what it must be."""
        answer = await self.send(api, **places)
        _LOG.info("%s: %s", self.name, answer or "accepted")
        if self.reason:
            assert re.search(self.reason, answer), f"{self.name}: {answer or 'accepted'}"
        else:
            assert answer == "", f"{self.name}: refused, {answer}"
