"""A server that answers with given bytes, for what neither a scripted broker nor a token server sends."""

import socket
import threading
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def answering(*parts, keeps_open=False):
    """Answer the first bytes of each connection with these; yield the port, and what was received."""
    received = []
    with ExitStack() as connections, socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with suppress(OSError):  # it is closed
                while True:
                    connection = connections.enter_context(listener.accept()[0])
                    received.append(connection.recv(65536))
                    for part in parts:
                        connection.sendall(part)
                    if not keeps_open:
                        connection.shutdown(socket.SHUT_WR)  # closed, it would reset what the client still sends

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], received
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
