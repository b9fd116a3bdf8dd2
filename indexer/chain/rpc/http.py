"""HTTP, over web3's provider."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
from web3 import AsyncHTTPProvider

from indexer.chain.rpc.transport import REPLY_BYTES, Answer, Transport
from indexer.errors import RangeTooLarge

_CONNECT_SECONDS: Final = 10.0
# A node thinks before it answers, seldom for as long as this, and never in the middle.
_STALL_SECONDS: Final = 30.0


class HttpTransport(Transport):
    """HTTP by web3's provider, with the status and body of errors kept."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        super().__init__(url, timeout)
        self._url = url
        self._provider = AsyncHTTPProvider(
            url,
            exception_retry_configuration=None,
            cache_allowed_requests=False,
        )
        self._headers = {**self._provider.get_request_headers(), **headers}
        self._session: aiohttp.ClientSession | None = None

    async def send(self, payload: bytes, *, first_id: int, count: int) -> Answer:
        """Post the payload and return whatever HTTP answer there is."""
        try:
            try:
                return await self._post(payload)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # A connection kept alive may be closed just as we use it; a request
                # only reads, so once more on a fresh one tells which it was.
                return await self._post(payload)
        except aiohttp.SocketTimeoutError:
            raise self.unavailable("fell silent before it had answered") from None
        except TimeoutError:
            raise self.unavailable(f"gave no answer in {self.timeout:g} s") from None
        except aiohttp.ClientConnectorError as error:
            problem = f"cannot be reached: {error.os_error.strerror or 'no connection'}"
            raise self.unavailable(problem) from None
        except (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientPayloadError,
            aiohttp.ClientOSError,
        ):
            raise self.dropped(count) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The text of these may quote the URL or a header.
            problem = f"failed with {type(error).__name__}"
            raise self.unavailable(problem) from None

    async def _post(self, payload: bytes) -> Answer:
        async with self._open().post(self._url, data=payload) as response:
            body = await self._body(response)
            return Answer(
                body, response.status, _seconds(response.headers.get("Retry-After"))
            )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        parts = []
        left = REPLY_BYTES
        async for part in response.content.iter_any():
            left -= len(part)
            if left < 0:
                # Not read to its end, so the connection is of no use any more.
                response.close()
                raise RangeTooLarge(
                    f"{self.name} answers with more than {REPLY_BYTES} bytes"
                )
            parts.append(part)
        return b"".join(parts)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            # web3's own session opens a connection a request and raises for any
            # status that is not 2xx. Nor is its cache of sessions used: whoever is
            # cancelled while waiting for its lock keeps it for ever.
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=self.timeout,
                    sock_connect=_CONNECT_SECONDS,
                    sock_read=_STALL_SECONDS if self.timeout > _STALL_SECONDS else None,
                ),
            )
        return self._session

    async def close(self) -> None:
        """Close the session and its connections."""
        await self._provider.disconnect()
        if self._session is not None:
            await self._session.close()
            self._session = None


def _seconds(retry_after: str | None) -> float | None:
    """Read ``Retry-After``: seconds or a date (RFC 9110, 10.2.3)."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
