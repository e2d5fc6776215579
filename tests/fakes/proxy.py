"""A TCP proxy that cuts connections when the test says so."""

from __future__ import annotations

import asyncio
from typing import Self

__all__ = ["Proxy"]


class Proxy:
    """Passes bytes on to `target` ("host:port"), which may change; use it as an async context manager."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._writers: set[asyncio.StreamWriter] = set()
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            other_reader, other_writer = await asyncio.open_connection(host, int(port))
        except OSError:  # nobody is there at the moment
            writer.transport.abort()
            return
        self._writers |= {writer, other_writer}
        for source, sink in ((reader, other_writer), (other_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pipe(source, sink))
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()
            self._writers.discard(sink)
