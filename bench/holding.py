"""A model endpoint that never answers and notes when it was let go: `python -m bench.holding`.

A request names itself by `task-N` in its text. GET /state tells, as JSON, how many requests are held and for
each that was let go the moment at which its connection was closed, on the clock that all processes of a
machine share (time.monotonic). The first line on stdout is the base URL.

Plain sockets and epoll: that the other side has closed a connection is noted in microseconds, and tidied up
when nothing else happens. So of a thousand that are closed together the last one is not noted late because of
the work for the others, as it would be in an event loop.
"""

from __future__ import annotations

import json
import re
import resource
import select
import socket
import sys
import time

NAME = re.compile(rb"task-(\d+)")
MOST_BYTES = 1 << 16
QUIET_S = 0.2
WATCHED = select.EPOLLIN | select.EPOLLRDHUP
GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Endpoint:
    """Holds the requests of all connections, in one thread."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=65535)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._texts: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._closed: dict[int, float] = {}
        self._gone: list[int] = []

    @property
    def url(self) -> str:
        """The base URL."""
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}/v1"

    def serve(self, lifeline: int) -> None:
        """Serves until the descriptor `lifeline` ends."""
        listener = self._listener.fileno()
        for descriptor in (listener, lifeline):
            self._poll.register(descriptor, select.EPOLLIN)
        while True:
            events = self._poll.poll(QUIET_S if self._gone else None)
            for descriptor, kind in events:
                if descriptor == lifeline:
                    return
                if descriptor == listener:
                    self._accept()
                elif kind & GONE:
                    self._note(descriptor)
                else:
                    self._read(descriptor)
            if not events:
                self._tidy()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            descriptor = connection.fileno()
            self._sockets[descriptor], self._texts[descriptor] = connection, b""
            self._poll.register(descriptor, WATCHED)

    def _note(self, descriptor: int) -> None:
        """The other side has closed the connection."""
        if (number := self._numbers.pop(descriptor, None)) is not None:
            self._closed[number] = time.monotonic()
        self._poll.unregister(descriptor)
        self._gone.append(descriptor)

    def _tidy(self) -> None:
        for descriptor in self._gone:
            self._sockets.pop(descriptor).close()
            del self._texts[descriptor]
        self._gone.clear()

    def _read(self, descriptor: int) -> None:
        connection = self._sockets[descriptor]
        text = self._texts[descriptor] = self._texts[descriptor] + connection.recv(MOST_BYTES)
        if text.startswith(b"GET /state"):
            if text.endswith(b"\r\n\r\n"):
                self._texts[descriptor] = b""
                self._tell(connection)
        elif descriptor not in self._numbers and (found := NAME.search(text)):
            self._numbers[descriptor] = int(found.group(1))

    def _tell(self, connection: socket.socket) -> None:
        body = json.dumps({"held": len(self._numbers), "closed": self._closed}).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        connection.setblocking(True)  # by the bench, which reads it at once
        connection.sendall(head % len(body) + body)
        connection.setblocking(False)


def main() -> None:
    """Listens on a free port until stdin ends (so it never outlives the bench)."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    endpoint = Endpoint()
    sys.stdout.write(f"{endpoint.url}\n")
    sys.stdout.flush()
    endpoint.serve(sys.stdin.fileno())


if __name__ == "__main__":
    main()
