"""`mutation-quota quotas diff`: what `quotas apply` would change."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs.cli.options import KafkaOptions
from jobs.cli.output import OutputOptions
from jobs.cli.overview.wording import plural
from quota.errors import BadInput, MutationQuotaError
from quota.records.quota import Quota
from quota.records.quota_log import QuotaRecord
from quota.timeline.plan import Step, plan, quota_record
from quota.timeline.quota_file import read_quota_file
from schemas.documents.quota_diff import QuotaDiff, QuotaDifference, QuotaValues

DIFFERS = 1

_CHANGES: dict[str, Literal["add", "change", "remove"]] = {"+": "add", "~": "change", "-": "remove"}

QuotaFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="All quotas: YAML as of quotas export, or JSON lines (.jsonl).")
]


class DiffTrouble(MutationQuotaError):
    """The difference could not be found out."""

    exit_code = 2


def diff(file: QuotaFile, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Show what `quotas apply FILE` would change.

    A line begins with + for a quota to add, ~ for one to change and - for one to remove.

    Exit codes, as of git diff and kubectl diff: 0 for no differences, 1 for differences, 2 for an error.

    Examples:
      mutation-quota quotas diff quotas.yaml
      mutation-quota quotas diff quotas.jsonl --output json
    """
    with _trouble():
        settings = kafka.read()
        from quota.kafka.quota_log import read_log

        log = read_log(settings)
        steps = plan(_read_file(file, log.now), log.timeline, log.now)
    output.print(
        QuotaDiff(bool(steps), [_difference(each) for each in steps]), lambda: _print(file, steps), items="changes"
    )
    if steps:
        raise typer.Exit(DIFFERS)


def _read_file(file: Path, at: int) -> list[QuotaRecord]:
    """Return the quotas of a file; of JSON lines those that hold at a time (epoch ms)."""
    if file.suffix not in {".jsonl", ".json"}:
        try:
            return read_quota_file(file.read_bytes(), str(file))
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror}") from None
    from jobs.whatif.quotas import read_quotas_of_file
    from quota.records.callback import Callbacks

    timeline = read_quotas_of_file(file, Callbacks()).timeline
    return [quota_record(each.entity, each.quota) for each in timeline.configured(at)]


@contextmanager
def _trouble() -> Iterator[None]:
    """Give all errors the exit code 2, so that none is taken for a difference."""
    try:
        yield
    except BadInput:
        raise
    except MutationQuotaError as error:
        raise DiffTrouble(str(error)) from None


def _print(file: Path, steps: Sequence[Step]) -> None:
    for step in steps:
        print(step)
    if steps:
        print(f"{plural(len(steps), 'difference')}: `quotas apply {file}` makes these changes.")
    else:
        print(f"The quotas are as in {file}.")


def _difference(step: Step) -> QuotaDifference:
    return QuotaDifference(
        _CHANGES[step.sign], step.record.entity, _values(step.before), _values(step.after), step.record.effective_at
    )


def _values(quota: Quota | None) -> QuotaValues | None:
    return None if quota is None else QuotaValues(quota.rate, quota.burst, quota.max_debt_ms, quota.shadow)
