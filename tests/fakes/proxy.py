"""A TCP proxy that cuts connections when the test says so, and keeps answers from the client before that."""

from __future__ import annotations

import asyncio
from typing import Self

__all__ = ["Proxy"]


class Proxy:
    """Passes bytes on to `target`, which may change; use it as an async context manager.

    Args:
        target: "host:port" or "unix:/path".
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._muted: set[asyncio.StreamWriter] = set()
        self._pipes: set[asyncio.Task[None]] = set()
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def cut(self) -> None:
        """Breaks every connection at once; new ones are taken."""
        for writer in self._writers:
            writer.transport.abort()

    def mute(self) -> None:
        """Clients hear nothing more on the connections that they have; what they say is passed on."""
        self._muted |= self._clients

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await self._dial()
        except OSError:  # nobody is there at the moment
            writer.transport.abort()
            return
        self._clients.add(writer)
        self._writers |= {writer, other_writer}
        for source, sink in ((reader, other_writer), (other_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pipe(source, sink))
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.target.startswith("unix:"):
            return await asyncio.open_unix_connection(self.target.removeprefix("unix:"))
        host, _, port = self.target.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if sink not in self._muted:
                    sink.write(data)
                    await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()
            for writers in (self._writers, self._clients, self._muted):
                writers.discard(sink)
