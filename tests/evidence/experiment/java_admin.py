"""The storm by Kafka's own AdminClient, in a separate JVM (`AdminStorm.java`)."""

import itertools
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.experiment.storm import PARTITIONS, Clock, Storm
from tests.support.java_source import java_command

_READY_SECONDS = 60.0
_NOT_IN_TIME = frozenset({"ThrottlingQuotaExceededException", "TimeoutException"})
"""Errors at the time limit: the topic was still refused, or its request still waited for those before it."""

Outcome = Callable[[str, str, str], None]
"""Takes a topic, the name of its error or nothing, and the error's message."""


class JavaAdmin:
    """Asynchronous calls of the AdminClient."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._calls = itertools.count()
        self._outcomes: dict[str, Outcome] = {}
        self._ready = threading.Event()
        self._ended = False

    def call(self, what: str, names: Iterable[str], seconds: float, outcome: Outcome) -> None:
        """Create or delete topics in one request, without waiting for the outcome.

        Args:
            what: `create` or `delete`.
            names: The topics.
            seconds: Time limit, within which the client retries.
            outcome: Called for each topic, from another thread.

        Raises:
            MutationQuotaError: The process has ended.
        """
        number = str(next(self._calls))
        self._outcomes[number] = outcome
        words = [number, what, str(round(seconds * 1000)), str(PARTITIONS), *names]
        try:
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise MutationQuotaError("Kafka's AdminClient has ended") from None

    def wait_until_ready(self) -> None:
        """Wait until the client runs, and has set the broker's own quota if it has to.

        Raises:
            MutationQuotaError: The process has ended, or is not ready within 60 s.
        """
        if not self._ready.wait(_READY_SECONDS) or self._ended:
            raise MutationQuotaError("Kafka's AdminClient does not start; its output is above")

    def listen(self) -> None:
        """Hand out the outcomes until the process ends."""
        for line in self._process.stdout:
            if line == "ready\n":
                self._ready.set()
            else:
                number, *outcome = line.rstrip("\n").split("\t")
                self._outcomes[number](*outcome)
        self._ended = True
        self._ready.set()


@contextmanager
def java_admin(jars: Path, address: str, client_id: str, own_quota: float | None) -> Iterator[JavaAdmin]:
    """Run the AdminClient inside the block; with `own_quota` the broker itself limits the client (mutations/s)."""
    quota = [] if own_quota is None else [str(own_quota)]
    command = java_command(Path(__file__).with_name("AdminStorm.java"), jars, address, client_id, *quota)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        admin = JavaAdmin(process)
        listener = threading.Thread(target=admin.listen, name="java-admin", daemon=True)
        listener.start()
        try:
            admin.wait_until_ready()
            yield admin
        finally:
            process.kill()
            listener.join()


class JavaStorm(Storm):
    """A storm of asynchronous calls of Kafka's AdminClient."""

    def __init__(self, admin: JavaAdmin, seconds: float, clock: Clock) -> None:
        """Prepare with a client, a time limit in seconds and a clock."""
        super().__init__(seconds, clock)
        self._admin = admin

    def create(self, names: list[str]) -> None:
        """Create topics in one request."""
        self._expect(names)
        self._admin.call("create", names, self._left(), self._on_done)

    def delete(self, names: list[str]) -> None:
        """Delete topics in one request."""
        self._expect(names)
        self._admin.call("delete", names, self._left(), self._on_done)

    def _on_done(self, name: str, kind: str, message: str) -> None:
        self._settle(name, f"{kind}: {message}" if kind else None, refused=kind in _NOT_IN_TIME)
