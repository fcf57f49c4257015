"""A broker with a request log, set up as an operator would, and the project's commands on it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from quota.errors import MutationQuotaError
from quota.settings import Settings
from tests.support.kafka_configs import kafka_configs
from tests.support.programs import command_line

REQUEST_LOGGER = "kafka.request.logger"
_BROKER_ID = "1"


@dataclass(frozen=True, slots=True)
class Place:
    """A broker with an empty cluster, and its folder."""

    settings: Settings
    folder: Path
    pid: int
    """The broker's process."""

    @property
    def log(self) -> Path:
        """The request log."""
        return self.folder / "broker" / "kafka-request.log"

    @property
    def logs(self) -> list[str]:
        """The request log and its rotated copies."""
        return [str(each) for each in sorted(self.log.parent.glob(f"{self.log.name}*"))]

    def set_level(self, level: str) -> None:
        """Set the level of the request log while the broker runs, by Kafka's own tool (KIP-412)."""
        which = ["--entity-type", "broker-loggers", "--entity-name", _BROKER_ID]
        change = ["--alter", "--add-config", f"{REQUEST_LOGGER}={level}"]
        kafka_configs(self.settings.kafka.bootstrap_servers, *which, *change)

    def command(self, *args: str) -> str:
        """Run one of the project's commands in the folder, and return its output.

        Raises:
            MutationQuotaError: The command fails.
        """
        server = self.settings.kafka.bootstrap_servers
        own = ["--set", f"kafka.bootstrap_servers={server}", "--set", f"storage.root={self.folder}"]
        done = subprocess.run(command_line(*args, *own), cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MutationQuotaError(f"mutation-quota {' '.join(args)}: {done.stderr}")
        return done.stdout

    def json_of(self, *args: str):
        """Run a command with `--output json`, and return its parsed output."""
        return json.loads(self.command(*args, "--output", "json"))


@contextmanager
def place(settings: Settings, folder: Path) -> Iterator[tuple[Place, Callable[[], None]]]:
    """Run a broker inside the block; provide its place, and the function that raises when it has ended."""
    folder.mkdir(parents=True)
    own = settings.model_copy(update={"storage": settings.storage.model_copy(update={"root": str(folder)})})
    with embedded_broker(own, port=0) as broker:
        yield Place(with_plaintext_cluster(own, broker.address), folder, broker.pid), broker.check
