"""Changes of the quota log: its topic, their author, and plans, which are shown as a diff and confirmed."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import typer
from msgspec import UNSET

from jobs.cli.options import ConfirmOptions
from jobs.cli.output import OutputOptions, print_text, print_warnings
from quota.errors import BadInput, NotFound
from quota.planning.plan import Step
from quota.records.quota_log import QuotaLogRecord
from quota.settings import Settings
from quota.text import format_time, plural
from quota.timeline.change import CallbackChange, QuotaChange
from schemas.documents.quotas import PlannedChange, QuotaChanges

if TYPE_CHECKING:
    from quota.kafka.quotas.log import QuotaLog

R = TypeVar("R", bound=QuotaLogRecord)

DIFFERENCES = 3
"""The exit code of a comparison that has found differences."""

_KINDS = ("added", "changed", "removed", "scheduled", "cancelled")


def prepare_quota_topic(settings: Settings) -> None:
    """Create the quota topic if it is missing, and check its configs."""
    from quota.kafka.topics.preparation import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])


def read_log(settings: Settings, *, with_entries: bool = False) -> "QuotaLog":
    """Return the quota log, read to its end."""
    from quota.kafka.quotas import log

    return log.read_log(settings, with_entries=with_entries)


def sign(record: R, comment: str | None, effective_at: int | None = None) -> R:
    """Return a record with the author of the change, its reason, and its time (epoch ms) if it has none of its own."""
    from quota.kafka.quotas.writer import author

    return msgspec.structs.replace(
        record,
        effective_at=effective_at if record.effective_at is None else record.effective_at,
        altered_by=author(),
        comment=record.comment if comment is None else comment,
    )


def print_steps(steps: Sequence[Step], output: OutputOptions) -> None:
    """Print the steps as a diff, unless they are printed as data later."""
    if output.for_people:
        for step in steps:
            print_text(str(step))


def warn_of_scheduled(scheduled: Iterable[QuotaChange]) -> None:
    """Warn of changes that stay scheduled after another one, each with the command that cancels it."""
    for change in scheduled:
        options = shlex.join([*change.entity.options, "--effective-at", format_time(change.moment)])
        print_warnings(
            [f"still scheduled: {change.entity}: {change}; to cancel this: mutation-quota quotas cancel {options}"]
        )


def cancel_scheduled(
    settings: Settings,
    scheduled: Sequence[QuotaChange | CallbackChange],
    moment: int | None,
    comment: str | None,
    subject: object,
) -> int:
    """Cancel the change that is scheduled for `moment` (epoch ms), or the only one if it is None; return its time."""
    times = ", ".join(format_time(change.moment) for change in scheduled)
    found = [change for change in scheduled if moment in {None, change.moment}]
    if not found:
        which = "scheduled change" if moment is None else f"change scheduled for {format_time(moment)}"
        raise NotFound(f"{subject} has no {which}{f', only for {times}' if times else ''}")
    if len(found) > 1:
        raise BadInput(f"{subject} has several scheduled changes: give --effective-at with one of {times}")
    moment = found[0].moment
    from quota.kafka.quotas.writer import QuotaWriter

    (timestamp,) = QuotaWriter(settings).write([sign(found[0].record(moment, cancelled=True), comment)])
    if timestamp >= moment:
        raise BadInput(f"too late: the change of {subject} at {format_time(moment)} has taken effect already")
    return moment


def change_log(
    settings: Settings,
    log: "QuotaLog",
    steps: Sequence[Step],
    effective_at: int | None,
    comment: str | None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
) -> None:
    """Show a plan, ask for confirmation, and write its steps to the quota log, unless this is a dry run.

    They take effect at `effective_at` (epoch ms); as soon as they are written if it is None. A dry run that has found
    steps exits with `DIFFERENCES`. The scheduled changes of the same entities that stay are named in warnings.
    """
    changed = {step.record.entity for step in steps}
    at = {(step.record.entity, step.record.effective_at or effective_at) for step in steps}
    scheduled = log.timeline.scheduled(log.now)
    warn_of_scheduled(each for each in scheduled if each.entity in changed and (each.entity, each.moment) not in at)
    print_steps(steps, output)
    if steps and not confirmation.dry_run:
        confirmation.confirm(f"Make {plural(len(steps), 'change')} in the quota log ({tally(steps)})?")
        from quota.kafka.quotas.writer import QuotaWriter

        QuotaWriter(settings).write([sign(step.record, comment, effective_at) for step in steps])
    document = QuotaChanges(not confirmation.dry_run, [planned_change(step, effective_at) for step in steps])
    output.print(document, lambda: print_count(steps, dry_run=confirmation.dry_run), items="changes")
    if steps and confirmation.dry_run:
        raise typer.Exit(DIFFERENCES)


def planned_change(step: Step, effective_at: int | None = None) -> PlannedChange:
    """Return a step of a plan as data; it takes effect at `effective_at` (epoch ms) unless it has its own time."""
    moment = effective_at if step.record.effective_at is None else step.record.effective_at
    return PlannedChange(step.record.entity, step.before, step.after, moment, step.record.cancelled or UNSET)


def print_count(steps: Sequence[Step], *, dry_run: bool) -> None:
    """Print the number of changes, also by kind."""
    done = "would be made" if dry_run else "made"
    print(f"{plural(len(steps), 'change')} {done}: {tally(steps)}." if steps else "Nothing to change.")


def tally(steps: Sequence[Step]) -> str:
    """Return how many steps of each kind a plan has, as in `1 changed, 5 removed`."""
    counts = Counter(map(_kind, steps))
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in _KINDS if counts[kind])


def _kind(step: Step) -> str:
    if step.record.effective_at is not None:
        return "cancelled" if step.record.cancelled else "scheduled"
    return {"+": "added", "~": "changed", "-": "removed"}[step.sign]
