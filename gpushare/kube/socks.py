"""The way to a server through a SOCKS5 proxy, which looks its name up. Imported only if there is one, as few need it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import yarl
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError

if TYPE_CHECKING:
    from aiohttp.connector import Connection

_PORT: Final = 1080


class SocksConnector(ProxyConnector):
    """Connections through ``proxy``; ``options`` are those of aiohttp's own connector."""

    def __init__(self, proxy: str, **options: Any) -> None:
        url = yarl.URL(proxy)
        place = str(url.host), url.port or _PORT
        super().__init__(*place, username=url.user, password=url.password, rdns=True, **options)

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection to the server. Raises ClientConnectorError, after which nothing was sent."""
        try:
            return await super().connect(req, traces, timeout)
        except (ProxyConnectionError, ProxyTimeoutError) as error:
            raise _error(req, str(error)) from error
        except ProxyError as error:
            raise _error(req, f"the SOCKS5 proxy refused: {error}") from error
        except (ssl.SSLError, ConnectionError) as error:
            # aiohttp's own connector names these itself.
            raise _error(req, str(error)) from error


def _error(req: aiohttp.ClientRequest, why: str) -> aiohttp.ClientConnectorError:
    return aiohttp.ClientConnectorError(req.connection_key, OSError(None, why))
