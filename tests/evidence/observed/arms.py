"""The storm of `make experiment` by Kafka's own AdminClient, without this project between client and broker."""

import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from jobs.spark.installation import jars_folder
from quota.settings import Settings
from tests.evidence.experiment.arm import DIRECT, STORM_USER, Course, Plan
from tests.evidence.experiment.figures import Arm
from tests.evidence.experiment.java_admin import JavaStorm, java_admin
from tests.evidence.experiment.place import plain_client
from tests.evidence.experiment.storm import Tenant
from tests.evidence.observed.place import Place, place


@dataclass(frozen=True, slots=True)
class Side:
    """An arm: without quotas, or with pushed quotas."""

    name: str
    folder: Path
    """Folder of the broker and of the commands' output; it is kept after the arm."""
    quotas: Path | None = None
    """File of quotas that are applied and pushed to the broker before the storm; None for no quotas."""


def run_observed(plan: Plan, settings: Settings, console: Console, side: Side) -> tuple[Arm, Place]:
    """Run an arm with the request log at DEBUG; return its figures and its broker's place."""
    console.print(side.name, style="bold")
    prefix = f"observed-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        status = stack.enter_context(console.status("starting a broker"))
        there, alive = stack.enter_context(place(settings, side.folder))
        if side.quotas is not None:
            there.command("quotas", "apply", "--yes", str(side.quotas))
            console.print(there.command("quotas", "push", "--yes").rstrip())
        there.set_level("DEBUG")
        address = there.settings.kafka.bootstrap_servers
        admin = stack.enter_context(java_admin(jars_folder(settings.broker.jars), address, STORM_USER, None))
        client = plain_client(there.settings)
        tenant = Tenant(client, there.settings.target_connection, f"{prefix}-{DIRECT}")
        stack.enter_context(tenant.at_work(0.0))
        storm = partial(JavaStorm, admin)
        course = Course(plan, {DIRECT: tenant}, client, storm, f"{prefix}-{STORM_USER}", console, status, alive)
        arm = course.run(side.name)
        there.set_level("WARN")
        return arm, there
