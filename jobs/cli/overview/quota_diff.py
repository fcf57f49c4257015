"""`mutation-quota quotas diff`: shows what `quotas apply` would change."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.control.plans import DIFFERENCES, tally
from jobs.cli.control.quota_files import read_quota_records
from jobs.cli.control.quota_text import planned_change
from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions, print_text
from quota.text import plural
from quota.timeline.plan import Step, plan
from schemas.documents.quota_diff import QuotaDiff

QuotaFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="File with all quotas: YAML as quotas export prints it, or JSON lines; - for stdin."
    ),
]


def diff(file: QuotaFile, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Compare a quota file with the quotas in force.

    Shows what `quotas apply FILE` would change, and changes nothing. A line begins with + for a quota to add, ~ for one
    to change and - for one to remove.

    Exits with 3 if there are differences, as quotas drift does.

    Examples:
      mutation-quota quotas diff quotas.yaml
      mutation-quota quotas diff quotas.jsonl --output json
    """
    records = read_quota_records(file)
    settings = kafka.read()
    from quota.kafka.quotas.log import read_log

    log = read_log(settings)
    steps = plan(records, log.timeline, log.now)
    output.print(
        QuotaDiff(bool(steps), [planned_change(each) for each in steps]),
        lambda: _print(file, steps),
        items="differences",
    )
    if steps:
        raise typer.Exit(DIFFERENCES)


def _print(file: Path, steps: Sequence[Step]) -> None:
    for step in steps:
        print_text(str(step))
    if steps:
        print_text(f"{plural(len(steps), 'difference')}: {tally(steps)}. `quotas apply {file}` makes these changes.")
    else:
        print_text(f"The quotas are the same as in {file}.")
