"""What each way of breaking a link does to a connection through it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.consistency.processes import free_port
from tests.consistency.proxy import Proxy, to_port

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    opened.append(writer)
    received.clear()
    while data := await reader.read(1 << 16):
        received.append(data)
        writer.write(data)
        await writer.drain()
    writer.close()


async def connect(proxy: Proxy, source: str = "127.0.0.1") -> Streams:
    streams = await asyncio.open_connection("127.0.0.1", proxy.port, local_addr=(source, 0))
    opened.append(streams[1])
    return streams


received: list[bytes] = []
opened: list[asyncio.StreamWriter] = []


def through_proxy(test: Callable[[Proxy, Streams], Awaitable[None]]) -> None:
    async def run() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        proxy = Proxy(free_port(), to_port(server.sockets[0].getsockname()[1]))
        await proxy.start()
        reader, writer = await connect(proxy)
        try:
            async with asyncio.timeout(20):
                assert await exchange(reader, writer, b"hello") == b"hello"
                await test(proxy, (reader, writer))
        finally:
            await proxy.stop()
            server.close()
            for end in opened:  # what is left to the collector is a warning in the middle of another test
                end.transport.abort()
            await asyncio.sleep(0)
            opened.clear()

    asyncio.run(run())


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> bytes:
    writer.write(data)
    return await reader.readexactly(len(data))


async def silent(reader: asyncio.StreamReader) -> bool:
    try:
        await asyncio.wait_for(reader.readexactly(1), 0.2)
    except TimeoutError:
        return True
    return False


def test_cut() -> None:
    async def test(proxy: Proxy, streams: Streams) -> None:
        proxy.link.set("cut")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await exchange(*streams, b"lost")
        reader, _ = await connect(proxy)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)

    through_proxy(test)


def test_black_hole() -> None:
    async def test(proxy: Proxy, streams: Streams) -> None:
        reader, writer = streams
        proxy.link.set("blackhole")
        writer.write(b"late")
        assert await silent(reader)
        proxy.link.set("pass")
        assert await reader.readexactly(4) == b"late"  # nothing is lost: the network held it

    through_proxy(test)


@pytest.mark.parametrize(("mode", "arrives"), [("deaf", False), ("mute", True)])
def test_half_open(mode: str, arrives: bool) -> None:
    async def test(proxy: Proxy, streams: Streams) -> None:
        reader, writer = streams
        proxy.link.set(mode)
        writer.write(b"one way")
        assert await silent(reader)
        assert (b"one way" in received) is arrives

    through_proxy(test)


@pytest.mark.parametrize("mode", ["delay", "trickle"])
def test_slow(mode: str) -> None:
    async def test(proxy: Proxy, streams: Streams) -> None:
        proxy.link.set(mode)
        data = bytes(range(256)) * 2
        begin = asyncio.get_running_loop().time()
        assert await exchange(*streams, data) == data
        assert asyncio.get_running_loop().time() - begin > 0.07

    through_proxy(test)


def test_links_are_told_apart_by_where_they_come_from() -> None:
    async def test(proxy: Proxy, streams: Streams) -> None:
        from tests.consistency.proxy import Link

        proxy.links["127.0.0.9"] = Link()
        proxy.links["127.0.0.9"].set("cut")
        reader, _ = await connect(proxy, "127.0.0.9")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        assert await exchange(*streams, b"still here") == b"still here"

    through_proxy(test)
