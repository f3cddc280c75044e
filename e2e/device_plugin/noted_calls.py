"""The calls of the recording kubelet to the plugin, with their answers, for the reports of failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from clusters.api.exchanges import note


class NotedCalls(grpc.aio.UnaryUnaryClientInterceptor):
    """Notes each call with one answer."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """The call, once it has an answer."""
        call = await continuation(client_call_details, request)
        code = await call.code()
        answer = await call if code is grpc.StatusCode.OK else await call.details()
        method = client_call_details.method
        note(method.decode() if isinstance(method, bytes) else method, request, code.name, answer)
        return call
