"""The engine behind a port of this machine, with TLS or not, and an HTTP proxy before such a port."""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator

from tests.engines.docker import Daemon

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.contextmanager
def engine_port(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Yield a port of 127.0.0.1 that leads to the engine."""
    socket = Daemon().socket_path

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _join(reader, writer, *await asyncio.open_unix_connection(socket))

    with _server(serve, tls) as port:
        yield port


@contextlib.contextmanager
def tunnels(to: int, heads: list[str]) -> Iterator[int]:
    """A port where CONNECT, to any host, leads to the port `to` of 127.0.0.1; the requests go to `heads`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _join(reader, writer, *await asyncio.open_connection("127.0.0.1", to))

    with _server(serve, None) as port:
        yield port


@contextlib.contextmanager
def _server(serve: Serve, tls: ssl.SSLContext | None) -> Iterator[int]:
    """Serve a free port of 127.0.0.1 from a thread of its own."""
    listening = threading.Event()
    ports: list[int] = []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        ports.append(server.sockets[0].getsockname()[1])
        listening.set()
        await ended.wait()
        server.close()
        open_ones = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        listening.wait()
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    engine_reader: asyncio.StreamReader,
    engine_writer: asyncio.StreamWriter,
) -> None:
    """Copy both ways until one side ends."""
    ways = [_copy(reader, engine_writer), _copy(engine_reader, writer)]
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        writer.close()
        engine_writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while got := await source.read(65536):
            sink.write(got)
            await sink.drain()
