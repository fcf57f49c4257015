"""Kafka's own AdminClient, in a separate JVM (`java/Driver.java`)."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quota.errors import MutationQuotaError
from tests.evidence.request_logs.calls import Answer, Call, Operation, TopicAnswer
from tests.evidence.request_logs.jars import current_jars
from tests.support.java_source import java_command

_VERBS = {Operation.CREATE: "create", Operation.GROW: "grow", Operation.DELETE: "delete"}
_SOURCE = Path(__file__).parent / "java/Driver.java"


class JavaDriver:
    """The running program, which carries out calls one after another."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, config: Mapping[str, str], verb: str, **what: Any) -> dict[str, Any]:
        """Carry out a call by a client with this configuration, and return the program's answer.

        Raises:
            MutationQuotaError: The call fails as a whole, or the program has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"config": dict(config), "call": verb, **what}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise MutationQuotaError("Kafka's AdminClient has ended; its output is above")
        answer = json.loads(line)
        if "failed" in answer:
            raise MutationQuotaError(f"{verb}: {answer['failed']}")
        return answer


@contextmanager
def java_driver() -> Iterator[JavaDriver]:
    """Run the program inside the block."""
    command = java_command(_SOURCE, current_jars())
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8") as process:
        try:
            yield JavaDriver(process)
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class JavaClient:
    """An AdminClient with its own configuration, which the program runs."""

    driver: JavaDriver
    config: Mapping[str, str]
    principal: str = "User:ANONYMOUS"
    kind: str = "AdminClient"

    @property
    def client_id(self) -> str | None:
        """The client-id."""
        return self.config["client.id"]

    def ask(self, call: Call) -> Answer:
        """Send a request, and wait for the answer."""
        topics = [asdict(each) for each in call.topics]
        what = {"topics": topics, "validate_only": call.validate_only, "by_id": call.by_id, "retries": call.retries}
        answer = self.driver.call(self.config, _VERBS[call.operation], **what)
        found = tuple(TopicAnswer(**each) for each in answer["topics"])
        throttles = [each.throttle_ms for each in found if each.throttle_ms is not None]
        return Answer(answer["sent_ms"], answer["answered_ms"], found, max(throttles, default=None))
