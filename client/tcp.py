"""TCP connections with fewer steps than trio's own stream, because sequential requests pay for each step.

The rules:

* :meth:`TcpStream.send_now` sends the bytes that the kernel accepts at once. No other task must run for it.
* ``receive_some`` waits first and then reads. The answer to a new request has never arrived yet, and an
  attempt to read it costs a system call and an exception.
"""

from __future__ import annotations

import socket

import trio

_READ_SIZE = 64 * 1024
"""The number of bytes in one read, if the caller gives none."""


class TcpStream(trio.abc.Stream):
    """A TCP connection. At most one task can read at a time, and at most one task can write.

    :param sock: the socket, which belongs to the stream from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)  # also where socket.setdefaulttimeout() was called
        self._socket = sock
        self._fileno = sock.fileno()

    @classmethod
    async def open(cls, host: str, port: int) -> TcpStream:
        """Connect to the first address of a name that accepts a connection.

        :raises OSError: none does.
        """
        stream = await trio.open_tcp_stream(host, port)
        with stream.socket as opened:
            return cls(socket.fromfd(opened.fileno(), opened.family, opened.type))

    @property
    def plain_socket(self) -> socket.socket:
        """The socket of the stream. The stream buffers no bytes."""
        return self._socket

    def fileno(self) -> int:
        """Return the file descriptor; -1 after :meth:`aclose`."""
        return self._fileno

    def send_now(self, data: bytes | memoryview) -> int:
        """Send as much as possible without waiting. Returns how many bytes were sent.

        :raises trio.BrokenResourceError: the connection is lost.
        """
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        with memoryview(data) as view:
            sent = self.send_now(view)
            while sent < len(view):
                await trio.lowlevel.wait_writable(self._fileno)
                sent += self.send_now(view[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self._fileno)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._fileno)
            try:
                return self._socket.recv(max_bytes or _READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def aclose(self) -> None:
        if self._fileno >= 0:
            trio.lowlevel.notify_closing(self._fileno)
            self._fileno = -1
            self._socket.close()
        await trio.lowlevel.checkpoint()
