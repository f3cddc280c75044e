"""Requests as any client may send them: by curl if it is installed, and by aiohttp if it is not."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from clusters.api.certificates import KeyPair

# Against hangs, in seconds: a hundred megabytes through a loaded machine.
_SECONDS: Final = 60
NO_ANSWER: Final = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """The client: ``ca`` is the authority that it trusts, ``pair`` its certificate; None for plain HTTP, and for no certificate."""

    ca: Path | None = None
    pair: KeyPair | None = None

    async def status(self, url: str, method: str = "GET", body: Path | None = None, content_type: str = "") -> int:
        """The answer; NO_ANSWER if the connection ends without one."""
        content_type = content_type or "application/json"
        if shutil.which("curl"):
            return await self._curl(url, method, body, content_type)
        return await self._aiohttp(url, method, body, content_type)

    async def _curl(self, url: str, method: str, body: Path | None, content_type: str) -> int:
        argv = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--noproxy", "*"]
        argv += ["--max-time", str(_SECONDS), "--request", method, "--header", f"Content-Type: {content_type}"]
        argv += ["--data-binary", f"@{body}"] if body is not None else []
        argv += ["--cacert", str(self.ca)] if self.ca is not None else []
        argv += ["--cert", str(self.pair.certificate), "--key", str(self.pair.key)] if self.pair is not None else []
        process = await asyncio.create_subprocess_exec(*argv, url, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return int(out)

    async def _aiohttp(self, url: str, method: str, body: Path | None, content_type: str) -> int:
        tls: ssl.SSLContext | bool = True
        if self.ca is not None:
            tls = ssl.create_default_context(cafile=str(self.ca))
            if self.pair is not None:
                tls.load_cert_chain(self.pair.certificate, self.pair.key)
        content = body.read_bytes() if body is not None else None
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method, url, data=content, headers={"Content-Type": content_type}, ssl=tls, allow_redirects=False
                ) as answer,
            ):
                return answer.status
        except (aiohttp.ClientError, OSError):
            return NO_ANSWER
