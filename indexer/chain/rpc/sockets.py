"""WebSocket and IPC: one connection, many requests on their way at once."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from web3 import AsyncIPCProvider, WebSocketProvider
from web3.exceptions import ProviderConnectionError
from web3.providers.persistent import PersistentConnectionProvider
from websockets.exceptions import WebSocketException

from indexer.chain.rpc.transport import (
    REPLY_BYTES,
    Answer,
    SubscriptionUnsupported,
    Transport,
)

# Endpoints count their ids from 1.
_SUBSCRIBE_ID: Final = 0
_SUBSCRIBE: Final = (
    b'{"jsonrpc":"2.0","id":%d,"method":"eth_subscribe","params":["newHeads"]}'
    % _SUBSCRIBE_ID
)
_BROKEN: Final = (OSError, WebSocketException, ProviderConnectionError)


class _Peek(msgspec.Struct):
    """As much of a message as tells whose it is."""

    id: int | str | float | UnsetType | None = UNSET
    method: str | None = None
    error: Any = None


_MESSAGES: Final = msgspec.json.Decoder(_Peek | list[_Peek])


class _RawWebSocket(WebSocketProvider):
    """web3's provider, whose listener passes messages on as bytes."""

    on_message: Callable[[bytes], None]
    on_end: Callable[[], None]

    async def _message_listener(self) -> None:
        socket = self._ws
        try:
            while socket is not None:
                self.on_message(await socket.recv(decode=False))
        except _BROKEN:
            pass
        finally:
            self.on_end()


class _RawIpc(AsyncIPCProvider):
    """web3's provider, whose listener passes messages on as bytes."""

    on_message: Callable[[bytes], None]
    on_end: Callable[[], None]

    async def _message_listener(self) -> None:
        reader = self._reader
        try:
            while reader is not None and (line := await reader.readline()):
                self.on_message(line)
        except (*_BROKEN, ValueError):
            # ValueError: a line longer than the buffer.
            pass
        finally:
            self.on_end()


class SocketTransport(Transport):
    """A persistent connection; answers find their waiters by id."""

    def __init__(self, url: str, timeout: float) -> None:
        super().__init__(url, timeout)
        self._provider: PersistentConnectionProvider | None = None
        self._alive = False
        self._connecting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._heads = asyncio.Event()

    @abstractmethod
    def _make(self) -> _RawWebSocket | _RawIpc:
        """Return a provider, not connected yet."""

    async def send(self, payload: bytes, *, first_id: int, count: int) -> Answer:
        """Send the payload and wait for the message that carries its ids."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        ids = range(first_id, first_id + count)
        try:
            async with asyncio.timeout(self.timeout):
                provider = await self._connected()
                self._waiting.update(dict.fromkeys(ids, answer))
                await provider.socket_send(payload)
                return await answer
        except TimeoutError:
            raise self.unavailable(f"gave no answer in {self.timeout:g} s") from None
        except _BROKEN:
            raise self.dropped(count) from None
        finally:
            for each in ids:
                self._waiting.pop(each, None)
            if answer.done() and not answer.cancelled():
                # An answer that came with the time-out has been seen, too.
                answer.exception()

    async def _connected(self) -> PersistentConnectionProvider:
        async with self._connecting:
            if self._provider is None or not self._alive:
                await self._disconnect()
                provider = self._make()
                provider.on_message = self._deliver
                provider.on_end = self._lost
                try:
                    await provider.connect()
                except _BROKEN as error:
                    # The error's text quotes the URL.
                    cause = error.__cause__ or error
                    problem = f"cannot be reached ({type(cause).__name__})"
                    raise self.unavailable(problem) from None
                self._provider = provider
                self._alive = True
            return self._provider

    def _deliver(self, message: bytes) -> None:
        try:
            found = _MESSAGES.decode(message)
        except (msgspec.DecodeError, RecursionError):
            found = []
        peeks = found if isinstance(found, list) else [found]
        if len(peeks) == 1 and peeks[0].method == "eth_subscription":
            self._heads.set()
            return
        ids = [peek.id for peek in peeks if isinstance(peek.id, int)]
        owners = {self._waiting[each] for each in ids if each in self._waiting}
        if not ids:
            # Nothing tells whose this is: an error about a request as such, or
            # garbage. Every waiter gets it, and asks again.
            owners = set(self._waiting.values())
        for owner in owners:
            if not owner.done():
                owner.set_result(Answer(message))

    def _lost(self) -> None:
        self._alive = False
        self._heads.set()
        for waiter in set(self._waiting.values()):
            if not waiter.done():
                waiter.set_exception(ConnectionResetError())

    async def subscribe_new_heads(self) -> AsyncIterator[None]:
        """Subscribe to ``newHeads``."""
        answer = await self.send(_SUBSCRIBE, first_id=_SUBSCRIBE_ID, count=1)
        try:
            reply = _MESSAGES.decode(answer.body)
        except (msgspec.DecodeError, RecursionError):
            raise self.unavailable("does not answer a subscription") from None
        if isinstance(reply, list) or reply.error is not None:
            raise SubscriptionUnsupported
        return _Hints(self, self._provider)

    def hint_is_due(self) -> asyncio.Event:
        """Return the event that is set by each announcement, and by the end."""
        return self._heads

    def is_connected_by(self, provider: PersistentConnectionProvider | None) -> bool:
        """Tell whether the connection is still the one of ``provider``."""
        return self._alive and self._provider is provider

    async def close(self) -> None:
        """Close the connection; whoever waits for an answer is told."""
        await self._disconnect()

    async def _disconnect(self) -> None:
        provider, self._provider, self._alive = self._provider, None, False
        if provider is not None:
            with suppress(*_BROKEN):
                await provider.disconnect()


class _Hints(AsyncIterator[None]):
    """The announcements of one connection; waiting for the next may be cancelled."""

    def __init__(
        self, transport: SocketTransport, provider: PersistentConnectionProvider | None
    ) -> None:
        self._transport = transport
        self._provider = provider

    async def __anext__(self) -> None:
        due = self._transport.hint_is_due()
        await due.wait()
        due.clear()
        if not self._transport.is_connected_by(self._provider):
            raise self._transport.unavailable("closed the connection")


class WebSocketTransport(SocketTransport):
    """WebSocket by web3's provider."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        super().__init__(url, timeout)
        self._url = url
        self._headers = dict(headers)

    def _make(self) -> _RawWebSocket:
        return _RawWebSocket(
            self._url,
            websocket_kwargs={
                "additional_headers": self._headers,
                # The libraries' own limits are 1 MiB, and 20 MB for IPC.
                "max_size": REPLY_BYTES,
                # Inflating a dense block costs more than decoding it.
                "compression": None,
                "ping_interval": 20,
                "ping_timeout": 20,
            },
            use_text_frames=True,
            request_timeout=self.timeout,
            max_connection_retries=1,
        )


class IpcTransport(SocketTransport):
    """IPC by web3's provider."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__(path, timeout)
        self._path = path

    def _make(self) -> _RawIpc:
        return _RawIpc(
            self._path,
            read_buffer_limit=REPLY_BYTES,
            request_timeout=self.timeout,
            max_connection_retries=1,
        )
