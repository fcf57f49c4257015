"""A load balancer of TCP that names its clients by the PROXY protocol."""

import asyncio
import socket
import threading
from contextlib import asynccontextmanager, contextmanager, suppress

ADDRESS = "127.0.0.3"
"""The address from which it connects to its server."""
CLIENT = "203.0.113.7"
"""The address that it names, whoever its client is."""
HEADER = (
    bytes.fromhex("0D0A0D0A000D0A515549540A 21 11 000C")
    + socket.inet_aton(CLIENT)
    + bytes.fromhex("7F000003 D431 4A94")
)
LOCAL = HEADER[:12] + bytes.fromhex("20 00 0000")
"""The header of a connection of its own."""


@contextmanager
def load_balancer(host, port, server, *, in_pieces=False):
    """Forward the connections of an address to a server inside the block.

    The header arrives together with the client's first bytes, or `in_pieces` of a byte each.
    """
    loop = asyncio.new_event_loop()

    async def forward(reader, writer):
        async with closing(writer):
            first = await reader.read(65_536)
            to_client, to_server = await asyncio.open_connection(*server, local_addr=(ADDRESS, 0))
            async with closing(to_server):
                to_server.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in map(bytes, zip(HEADER)) if in_pieces else []:
                    to_server.write(piece)
                    await asyncio.sleep(0.001)
                to_server.write(first if in_pieces else HEADER + first)
                await asyncio.gather(pipe(reader, to_server), pipe(to_client, writer))

    async def pipe(reader, writer):
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    @asynccontextmanager
    async def closing(writer):
        try:
            yield
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def end():
        listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def call(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        listening = call(asyncio.start_server(forward, host, port))
        try:
            yield listening.sockets[0].getsockname()
        finally:
            call(end())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
