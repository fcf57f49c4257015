"""`mutation-quota quotas diff`: shows what `quotas apply` would change."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.control.plans import tally
from jobs.cli.control.quota_files import read_quota_records
from jobs.cli.control.quota_text import planned_change
from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions, print_text
from quota.errors import BadInput, MutationQuotaError
from quota.text import plural
from quota.timeline.plan import Step, plan
from schemas.documents.quota_diff import QuotaDiff

DIFFERS = 1

QuotaFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="File with all quotas: YAML as quotas export prints it, or JSON lines.")
]


class DiffError(MutationQuotaError):
    """The comparison failed."""

    exit_code = 2


def diff(file: QuotaFile, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Compare a quota file with the quotas in force.

    Shows what `quotas apply FILE` would change, and changes nothing. A line begins with + for a quota to add, ~ for one
    to change and - for one to remove.

    Exit codes, as for diff and kubectl diff: 0 for no differences, 1 for differences, 2 for an error.

    Examples:
      mutation-quota quotas diff quotas.yaml
      mutation-quota quotas diff quotas.jsonl --output json
    """
    with _diff_errors():
        settings = kafka.read()
        from quota.kafka.quotas.log import read_log

        log = read_log(settings)
        steps = plan(read_quota_records(file), log.timeline, log.now)
    output.print(
        QuotaDiff(bool(steps), [planned_change(each) for each in steps]), lambda: _print(file, steps), items="changes"
    )
    if steps:
        raise typer.Exit(DIFFERS)


@contextmanager
def _diff_errors() -> Iterator[None]:
    """Give all errors the exit code 2, so that none is mistaken for a difference."""
    try:
        yield
    except BadInput:
        raise
    except MutationQuotaError as error:
        raise DiffError(str(error)) from None
    except Exception as error:
        raise DiffError(f"unexpected {type(error).__name__}: {error}") from error


def _print(file: Path, steps: Sequence[Step]) -> None:
    for step in steps:
        print_text(str(step))
    if steps:
        print_text(f"{plural(len(steps), 'difference')}: {tally(steps)}. `quotas apply {file}` makes these changes.")
    else:
        print_text(f"The quotas are the same as in {file}.")
