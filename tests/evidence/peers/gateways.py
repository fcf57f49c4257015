"""Opens gateways in front of clusters that foreign tests start, all with the decisions of one job."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient

from jobs.sandbox.broker import HOST
from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import QuotaWriter
from quota.kafka.timing import now_ms
from quota.records.quota_log import QuotaRecord, ResetRecord
from quota.settings import Settings
from tests.evidence.gateway.ground import ADMIN
from tests.support.gateway import running_gateway
from tests.support.waiting import until

_SECONDS = 30
_LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": ADMIN, "sasl.password": "secret"}


class Gateways:
    """The gateway in front of the present cluster; opening another one closes it, and forgets quotas and debts."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._settings = settings
        self._log = folder / "gateways.log"
        self._open = ExitStack()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the gateway that is open, if any."""
        with self._lock:
            self._open.close()

    def open(self, protocol: str, brokers: str) -> dict[str, str]:
        """Open a gateway in front of a new cluster; return the gateway's address for that of each broker."""
        with self._lock:
            self._open.close()
            self._forget()
            given = [f"kafka.target_servers={brokers}", f"target.security_protocol={protocol}"]
            login = _LOGIN if protocol.startswith("SASL") else {}
            given += [f"target.{name.replace('.', '_')}={value}" for name, value in login.items()]
            started = running_gateway(self._settings, self._log, *given, port=_first_port())
            gateway = self._open.enter_context(started)
            options = {"security.protocol": protocol, **login}
            count = len(brokers.split(","))
            direct = until(lambda: _addresses(brokers, options, count), _SECONDS)
            through = until(lambda: _addresses(gateway.address, options, count), _SECONDS)
        return {direct[node]: through[node] for node in direct}

    def _forget(self) -> None:
        """Remove all quotas, and reset the buckets of their users: the next test has a cluster of its own."""
        entities = [change.entity for change in read_log(self._settings).timeline.configured(now_ms())]
        records = [QuotaRecord(entity, None) for entity in entities]
        users = {entity.names["user"] for entity in entities if entity.names.get("user")}
        if records:
            QuotaWriter(self._settings).write([*records, *(ResetRecord({"user": user}) for user in users)])


def _first_port() -> int:
    """Return a port for node id 1 with which those of 0 and 2 to 10 are free, too, and as high as those of the brokers.

    One of Kafka's tests expects that nothing answers at such a port of another address.
    """
    while True:
        with suppress(OSError), ExitStack() as stack:
            first = stack.enter_context(socket.create_server((HOST, 0))).getsockname()[1]
            for port in (*range(first + 1, first + 10), first + 999):
                stack.enter_context(socket.create_server((HOST, port)))
            return first


def _addresses(servers: str, options: dict[str, str], count: int) -> dict[int, str]:
    """Return the addresses of a cluster's brokers by their ids; empty until there are as many as expected."""
    brokers = AdminClient({"bootstrap.servers": servers, **options}).list_topics(timeout=_SECONDS).brokers
    found = {node: f"{broker.host}:{broker.port}" for node, broker in brokers.items()}
    return found if len(found) == count else {}


@contextmanager
def serving(gateways: Gateways) -> Iterator[int]:
    """Open gateways for another process inside the block, and yield the port for its requests.

    A request is the line `open PROTOCOL BROKERS`; the answer is a line of pairs BROKER=GATEWAY, or `!` and an error.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            _, protocol, brokers = self.rfile.readline().decode().split()
            try:
                pairs = gateways.open(protocol, brokers)
                answer = ",".join(f"{broker}={gateway}" for broker, gateway in pairs.items())
            except Exception as error:  # noqa: BLE001 the test that asked reports it
                answer = f"!{error!r}".replace("\n", " ")
            self.wfile.write(f"{answer}\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
            gateways.close()
