"""Clients that create, grow and delete topics through a gateway, and retry while it is unavailable."""

import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from jobs.sandbox.broker import HOST
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
_UNDECIDED = "no decision on this mutation in"
"""The beginning of the message of a request that was written and not decided in time, which a client may give up."""


@dataclass
class Tally:
    """The outcomes of the clients."""

    calls: int = 0
    broken: int = 0
    """Calls whose connection was lost."""
    throttled: int = 0
    undecided: int = 0
    """Calls answered with error 7: there was no decision, or the broker did not know the topic yet."""
    given_up: int = 0
    """Creations that were requested and not decided, and that were not tried again."""
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
        ports: Sequence[int],
        protocol: Protocol,
        is_over: Callable[[], bool],
        seed: int,
        prefix: str,
        *,
        tls: ssl.SSLContext | None = None,
        limit_ms: int = LIMIT_MS,
        gives_up: float = 0.0,
    ) -> None:
        """Take the prefix of the names of its topics, and the share of undecided creations that it gives up.

        It connects to the ports in turn.
        """
        super().__init__(name=f"client-{number}", daemon=True)  # if one hangs, the program still ends
        self._id = f"client-{number}"
        self._ports = cycle(ports)
        self._protocol = protocol
        self._prefix = prefix
        self._tls = tls
        self._limit_ms = limit_ms
        self._gives_up = gives_up
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
            if not self._step(create("created", 7, new_topic(name, self._chance.randint(1, 3))), name):
                continue
            if self._chance.random() < 0.7:
                self._step(grow("grown", 3, (name, self._chance.randint(4, 6))), name)
            if self._chance.random() < 0.7:
                self._step(delete("deleted", 6, name), name)
        self._disconnect()

    def _step(self, request: Request, name: str) -> bool:
        """Send a request until the topic is in the requested state; return whether it is."""
        done, request = request.name, request.with_fields(timeoutMs=self._limit_ms)
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
                return True
            if code == _THROTTLED:
                self.tally.throttled += 1
                time.sleep(answer["throttleTimeMs"] / 1000)
            elif code == _TIMED_OUT:
                self.tally.undecided += 1
                self._disconnect()  # the next attempt may be at another gateway
                is_undecided = str(result.get("errorMessage")).startswith(_UNDECIDED)
                if request.key == CREATE and is_undecided and self._chance.random() < self._gives_up:
                    self.tally.given_up += 1
                    return False
                time.sleep(_RETRY_SECONDS)
            else:
                self.tally.wrong.append(f"{name} was not {done}: error {code} {result['errorMessage']}")
                return False

    def _call(self, request: Request) -> Message | None:
        """Return the answer, or None if the connection was lost; note how long it took."""
        self.tally.calls += 1
        started = time.monotonic()
        try:
            if self._client is None:
                self._client = WireClient((HOST, next(self._ports)), self._protocol, self._id, self._tls)
                self._client.socket.settimeout(self._limit_ms / 1000 + _SLACK_SECONDS)
            return request.call(self._client)
        except TimeoutError:
            self.tally.wrong.append(f"{self._id} waited longer than its {self._limit_ms} ms")
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
