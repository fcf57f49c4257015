"""Clients that create, grow and delete topics through a gateway, and retry while it is unavailable."""

import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from quota.errors import MutationQuotaError
from quota.wire.protocol import Protocol
from tests.evidence.gateway.requests import CREATE, DELETE, GROW, Request, create, delete, grow
from tests.support.wire.requests import topic as new_topic
from tests.support.wire_client import Message, WireClient

LIMIT_MS = 15_000
"""A client's own time limit of a request, ms."""

_SLACK_SECONDS = 3.0
_DONE = {CREATE: 36, GROW: 37, DELETE: 3}
"""The error that shows that an earlier attempt succeeded: the topic exists, has the partitions, or does not exist."""
_THROTTLED, _TIMED_OUT = 89, 7
"""The answers after which a step is tried again."""
_RETRY_SECONDS = 0.2


@dataclass
class Tally:
    """The outcomes of the clients."""

    calls: int = 0
    broken: int = 0
    """Calls whose connection was lost."""
    throttled: int = 0
    undecided: int = 0
    """Calls answered with error 7: there was no decision, or the broker did not know the topic yet."""
    found_done: int = 0
    """Steps that a retry found done by an earlier attempt."""
    longest_ms: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    """Creations, growths and deletions that are done."""
    answers: dict[tuple[str, str], int] = field(default_factory=dict)
    """The error code of the last answer to each step that is done, by what was done and the topic."""
    wrong: list[str] = field(default_factory=list)


class Client(threading.Thread):
    """Creates topics, grows and deletes them, one step after the other, each until it is done."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        number: int,
        port: int,
        protocol: Protocol,
        tls: ssl.SSLContext,
        is_over: Callable[[], bool],
        seed: int,
        prefix: str,
    ) -> None:
        """Take the prefix of the names of its topics."""
        super().__init__(name=f"client-{number}", daemon=True)  # if one hangs, the program still ends
        self._id = f"client-{number}"
        self._address = ("127.0.0.1", port)
        self._protocol = protocol
        self._prefix = prefix
        self._tls = tls
        self._is_over = is_over
        self._chance = random.Random(seed + number)
        self._client: WireClient | None = None
        self.tally = Tally()

    def run(self) -> None:
        """Run until the end; finish the current step."""
        number = 0
        while not self._is_over():
            name = f"{self._prefix}{self._id}-{number}"
            number += 1
            self._step(create("created", 7, new_topic(name, self._chance.randint(1, 3))), name)
            if self._chance.random() < 0.7:
                self._step(grow("grown", 3, (name, self._chance.randint(4, 6))), name)
            if self._chance.random() < 0.7:
                self._step(delete("deleted", 6, name), name)
        self._disconnect()

    def _step(self, request: Request, name: str) -> None:
        """Send a request until the topic is in the requested state."""
        done, request = request.name, request.with_fields(timeoutMs=LIMIT_MS)
        while True:
            answer = self._call(request)
            if answer is None:
                time.sleep(_RETRY_SECONDS)
                continue
            (result,) = answer.get("topics") or answer.get("results") or answer["responses"]
            code = result["errorCode"]
            if code in {0, _DONE[request.key]}:
                self.tally.steps[done] += 1
                self.tally.answers[done, name] = code
                self.tally.found_done += code != 0
                return
            if code == _THROTTLED:
                self.tally.throttled += 1
                time.sleep(answer["throttleTimeMs"] / 1000)
            elif code == _TIMED_OUT:
                self.tally.undecided += 1
            else:
                self.tally.wrong.append(f"{name} was not {done}: error {code} {result['errorMessage']}")
                return

    def _call(self, request: Request) -> Message | None:
        """Return the answer, or None if the connection was lost; note how long it took."""
        self.tally.calls += 1
        started = time.monotonic()
        try:
            if self._client is None:
                self._client = WireClient(self._address, self._protocol, self._id, self._tls)
                self._client.socket.settimeout(LIMIT_MS / 1000 + _SLACK_SECONDS)
            return request.call(self._client)
        except TimeoutError:
            self.tally.wrong.append(f"{self._id} waited longer than its {LIMIT_MS} ms")
            self._disconnect()
        except (OSError, MutationQuotaError):
            self.tally.broken += 1
            self._disconnect()
        finally:
            self.tally.longest_ms = max(self.tally.longest_ms, round((time.monotonic() - started) * 1000))
        return None

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
